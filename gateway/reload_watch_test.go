package gateway

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestH232_WhatIsTaken: a changed file is loaded at the second look that finds it unchanged,
// never before, and only once.
func TestH232_WhatIsTaken(t *testing.T) {
	name := filepath.Join(t.TempDir(), "gatehouse.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const whole = "shutdown_timeout: 7s\nupstreams: [{name: a, url: \"http://127.0.0.1:1\"}]\n"
	write(whole)
	f := &configFile{path: name}
	take := func() (Config, error) {
		l, err := f.load(nil)
		return l.cfg, err
	}
	if _, err := take(); err != nil {
		t.Fatal(err)
	}
	looks := func(what string, want ...bool) {
		t.Helper()
		for i, want := range want {
			if got := f.changed(); got != want {
				t.Fatalf("%s: taken at look %d: %t, want %t", what, i+1, got, want)
			}
		}
	}
	looks("nothing has changed", false, false)
	for written := range len(whole) { // as a reader sees it in between
		write("# new\n" + whole[:written])
		looks("half a file", false)
	}
	write("# new\n" + whole)
	looks("the whole file", false, true)
	if cfg, err := take(); err != nil || cfg.ShutdownTimeout.String() != "7s" {
		t.Fatalf("%+v, %v", cfg.ShutdownTimeout, err)
	}
	looks("it was taken", false, false)
	for i := range 100 {
		write(fmt.Sprintf("# %d\n%s", i, whole))
		looks("a change at every look", false)
	}
	looks("then none", true)
	if _, err := take(); err != nil {
		t.Fatal(err)
	}

	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	looks("it was deleted", false, true)
	if _, err := take(); err == nil {
		t.Fatal("a file that is not there was taken")
	}
	looks("that was told once", false, false)
	write(whole)
	looks("it is back", false, true)
}

// TestH232_LastGoodStays: a file that is deleted, half-written or changed again and again
// changes nothing until there is a good one, which is then applied.
func TestH232_LastGoodStays(t *testing.T) {
	p := newSite(t, true, one("work", saying("x")))
	upstreams := fmt.Sprintf("upstreams: [{name: a, url: %q}]\n", p.url)
	c := startConfigured(t, upstreams)
	session := connect(t, c.Gateway, stateless)
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	var calling sync.WaitGroup
	calling.Go(func() {
		for ctx.Err() == nil {
			if got, err := callTool(t.Context(), session, "a__work"); err != nil || got != "x" {
				t.Errorf("a call: %q, %v", got, err)
				return
			}
			calls.Add(1)
		}
	})
	defer calling.Wait()
	defer cancel()

	held := c.graph()
	if err := os.Remove(c.file); err != nil {
		t.Fatal(err)
	}
	told := func(what string) {
		t.Helper()
		eventually(t, what, func() bool {
			err := c.ReloadStatus().Err
			return err != nil && strings.Contains(err.Error(), what)
		})
	}
	told("cannot be read")
	c.write(t, "upstreams: [")
	told(":2:")
	if c.graph() != held {
		t.Error("something was replaced")
	}
	for i := range 100 {
		c.write(t, fmt.Sprintf("%sshutdown_timeout: %ds\n", upstreams, i+1))
	}
	cancel()
	calling.Wait() // the last one allows none
	c.write(t, upstreams+"policy: {default: deny}\n")
	eventually(t, "the last one holds", func() bool { return len(listTools(t, session)) == 0 })
	if calls.Load() == 0 {
		t.Error("no call was made meanwhile")
	}
}
