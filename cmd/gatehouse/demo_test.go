package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// demoRun is a running demo, between "demo start" and "demo stop" of a script.
type demoRun struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
}

type demoKey struct{}

// runDemoScript implements "demo start args...", which starts gatehouse demo on a free
// port, waits until it serves, and writes its output to banner.txt, the guide that it names to guide.txt,
// what is to paste into a shell to paste.sh, and each explanation to a script of its own (explain1.sh and so on). It
// also implements "demo stop", which expects exit code 0.
func runDemoScript(ts *testscript.TestScript, neg bool, args []string) {
	run := ts.Value(demoKey{}).(*demoRun)
	switch {
	case neg || len(args) == 0:
		ts.Fatalf("usage: demo start args... | demo stop")
	case args[0] == "start":
		run.start(ts, args[1:])
	case args[0] == "stop":
		ts.Check(run.cmd.Process.Signal(syscall.SIGTERM))
		err := run.cmd.Wait()
		run.cancel()
		ts.Check(err)
	}
}

func (run *demoRun) start(ts *testscript.TestScript, args []string) {
	program, err := exec.LookPath("gatehouse")
	ts.Check(err)
	var ctx context.Context
	ctx, run.cancel = context.WithTimeout(context.Background(), 2*time.Minute)
	ts.Defer(run.cancel)
	run.cmd = exec.CommandContext(ctx, program, append([]string{"demo", "--no-clients", "--listen", "127.0.0.1:0"},
		args...)...)
	run.cmd.Args[0] = "gatehouse" // as if run from the path
	run.cmd.Dir = ts.MkAbs(".")
	run.cmd.Env = append(os.Environ(), "TMPDIR="+ts.MkAbs("tmp"))
	var banner strings.Builder
	stdout, err := run.cmd.StdoutPipe()
	ts.Check(err)
	log, err := os.Create(ts.MkAbs("log.txt"))
	ts.Check(err)
	defer log.Close()
	run.cmd.Stderr = log
	ts.Check(run.cmd.Start())
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		banner.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "Ctrl-C stops everything.") {
			break
		}
	}
	file := regexp.MustCompile(`(?m)^less (.+)$`).FindStringSubmatch(banner.String())
	if n := strings.Count(banner.String(), "\n"); n > 25 || file == nil {
		ts.Fatalf("%d lines, want a file with more, and at most 25 lines:\n%s", n, banner.String())
	}
	text, err := os.ReadFile(file[1])
	ts.Check(err)
	guide := string(text)
	ts.Check(os.WriteFile(ts.MkAbs("banner.txt"), []byte(banner.String()), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("guide.txt"), text, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("paste.sh"), []byte(toPaste(guide)), 0o600))
	for i, command := range explanations.FindAllString(guide, -1) {
		ts.Check(os.WriteFile(ts.MkAbs(fmt.Sprintf("explain%d.sh", i+1)), []byte(command), 0o600))
	}
}

var (
	// notHere matches commands of programs that are not installed here, and those with a
	// script of their own.
	notHere      = regexp.MustCompile(`^(npx|claude|\{|gatehouse explain)`)
	explanations = regexp.MustCompile(`(?m)^gatehouse explain .*(\n  .*)?\n`)
)

// toPaste returns the lines at the left margin, block by block.
func toPaste(guide string) string {
	var script strings.Builder
	for block := range strings.SplitSeq(guide, "\n\n") {
		block = strings.Trim(block, "\n")
		if block != "" && block[0] != ' ' && !notHere.MatchString(block) {
			script.WriteString(block + "\n\n")
		}
	}
	return script.String()
}
