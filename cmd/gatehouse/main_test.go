package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gatehouse": main, "carry": carry, "spy": spy})
}

// carry runs this process as a stdio bridge to sessions of a scripted server.
func carry() { _ = mcptest.Carry(os.Args[1], os.Stdin, os.Stdout) } // one of the two ends is closed eventually

func TestScripts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // the scripts run in parallel
	wordy := newWordy()
	t.Cleanup(wordy.Close) // likewise
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	t.Cleanup(issuer.Close)
	issuer.SetMetadata("authorization_endpoint", issuer.URL+"/authorize")
	issuer.SetMetadata("token_endpoint", issuer.URL+"/token")
	issuer.SetMetadata("client_id_metadata_document_supported", true)
	issuer.SetMetadata("token_endpoint_auth_methods_supported", []string{"none"})
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"demo":     runDemoScript,
			"exitcode": exitCode,
			"serving":  serving,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("DEAD", "127.0.0.1:1") // nobody listens there, and no other test can get it
			env.Setenv("WORDY", wordy.URL)
			env.Setenv("ISSUER", issuer.URL)
			env.Setenv("TAKEN", taken.Addr().String())
			env.Values[demoKey{}] = &demoRun{}
			return nil
		},
	})
}

// newWordy starts a server with 41 tools, one of which has a long name and a long description.
func newWordy() *mcptest.Server {
	s := mcptest.NewServer(wire.Stateless())
	s.On("tools/list", func(c *mcptest.Call) {
		tools := []string{fmt.Sprintf(`{"name":"%s","description":"%s","inputSchema":{"type":"object"}}`,
			strings.Repeat("n", 60), strings.Repeat("d", 3000))}
		for i := range 40 {
			tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
		}
		c.Result(`{"tools":[` + strings.Join(tools, ",") + `]}`)
	})
	return s
}

// exitCode implements "exitcode N command args...": it prints the command's output, and
// expects exit code N.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N command args...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		m := regexp.MustCompile(`exit status (\d+)`).FindStringSubmatch(err.Error())
		if m == nil {
			ts.Fatalf("%v", err)
		}
		code = m[1]
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// serving implements "serving SIGNAL gatehouse args...": it starts the command, waits until
// it says that it serves, sends the signal and expects exit code 0.
func serving(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": os.Interrupt}
	if neg || len(args) < 2 || signals[args[0]] == nil {
		ts.Fatalf("usage: serving SIGTERM|SIGINT command args...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	program, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd := exec.CommandContext(ctx, program, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "DEAD="+ts.Getenv("DEAD"))
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	said := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		ts.Logf("%s", lines.Text())
		if !said && regexp.MustCompile(`msg=serving .*url=http://127\.0\.0\.1:\d+/mcp`).MatchString(lines.Text()) {
			said = true
			ts.Check(cmd.Process.Signal(signals[args[0]]))
		}
	}
	if err := cmd.Wait(); err != nil || !said {
		ts.Fatalf("said that it serves: %t; then %v", said, err)
	}
}
