package fake

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// playFaulty runs a stdio server with the fault that its role names. Otherwise it behaves
// like a stateful server.
func playFaulty(role string) {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	switch role {
	case "crash at start":
		fmt.Fprintln(os.Stderr, "cannot open database")
		os.Exit(1)
	case "deaf":
		if file := os.Getenv("FILE"); file != "" {
			if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
				panic(err)
			}
		}
		pause()
	case "leaves its group":
		child := exec.Command("sleep", "300")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		leaveGroup(child)
		if err := child.Start(); err != nil {
			panic(err)
		}
		os.Setenv("CHILD", strconv.Itoa(child.Process.Pid))
	case "says good-bye":
		signal.Ignore(syscall.SIGTERM) // it ends when its input ends, or is killed
	case "ignores SIGTERM":
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "300") // in the same group, and holding our output
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
		os.Setenv("CHILD", strconv.Itoa(child.Process.Pid))
	case "noisy stderr":
		line := strings.Repeat("x", 1023) + "\n"
		for range 20 << 10 { // 20 MiB
			_, _ = os.Stderr.WriteString(line)
		}
	}
	lines := bufio.NewReader(os.Stdin)
	var held json.RawMessage // id of the request that is answered late
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			switch role {
			case "ignores SIGTERM":
				pause()
			case "says good-bye":
				if err := os.WriteFile(os.Getenv("FILE"), nil, 0o600); err != nil {
					panic(err)
				}
			}
			return
		}
		var m Message
		_ = json.Unmarshal(line, &m)
		name, _ := mcp.Raw(m.Params).Member("name")
		if held != nil {
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid request parameters"}}`, held)
			held = nil
		}
		switch {
		case m.ID == nil || m.Method == "":
		case m.Method == mcp.MethodDiscover && role == "exits on discover":
			os.Exit(2)
		case m.Method == mcp.MethodDiscover && role == "silent on discover":
		case m.Method == mcp.MethodDiscover && role == "late on discover":
			held = m.ID
		case m.Method == mcp.MethodDiscover:
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid request parameters"}}`, m.ID)
		case m.Method == mcp.MethodInitialize:
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"resources":{"subscribe":true,"listChanged":true}}}}`, m.ID)
		case name.Text() == "env":
			env, err := json.Marshal(os.Environ())
			if err != nil {
				panic(err)
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"env":%s,"pid":%d}}`, m.ID, env, os.Getpid())
		case name.Text() == "hang":
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, m.ID)
		case name.Text() == "crash":
			os.Exit(3)
		case name.Text() == "much garbage":
			for range 200 {
				say("garbage")
			}
		case name.Text() == "long line":
			chunk := strings.Repeat("x", 1<<20)
			for range 20 {
				fmt.Print(chunk)
			}
		case name.Text() == "long answer":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":"%s"}}`, m.ID, strings.Repeat("x", 20<<20))
		case name.Text() == "batch":
			say(`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}},`+
				`{"jsonrpc":"2.0","id":%s,"result":%s}]`, m.ID, m.ID, OK)
		case name.Text() == "wrong ids":
			say(`{"jsonrpc":"2.0","id":"%s0","result":{"wrong":1}}`, m.ID)
			say(`{"jsonrpc":"2.0","id":4711,"result":{"wrong":2}}`)
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, OK)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"wrong":3}}`, m.ID)
		default:
			say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, OK)
		}
	}
}

// pause blocks until the process is killed.
func pause() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGHUP)
	for {
		<-never
	}
}

// AwaitEnd waits for the end of a process that is not a child: on a busy machine a signal
// takes its time.
func AwaitEnd(t *testing.T, pid string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); Lives(t, pid); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("process %s lives", pid)
		}
	}
}

// Lives reports whether a process exists and is not an unreaped zombie.
func Lives(t *testing.T, pid string) bool {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err == nil { // on systems other than Linux the signal has to be enough
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "Z") {
			return false
		}
	}
	process, err := os.FindProcess(number)
	return err == nil && process.Signal(syscall.Signal(0)) == nil
}

// PID returns the number of the process that serves a session, and its environment.
func PID(t *testing.T, u mcp.Handler, session string) (pid int, env string) {
	t.Helper()
	c := Tool("env")
	c.Session = session
	result := MustDo(t, u, c).Result
	raw, _ := result.Member("pid")
	pid, err := strconv.Atoi(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	list, _ := result.Member("env")
	return pid, string(list)
}
