package main

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) {
	if isStdio() {
		return
	}
	os.Exit(m.Run())
}

// TestBooksBalance runs clients of all kinds against three replicas for some seconds and a hundred calls.
// Meanwhile the replicas load one configuration after another, each of which replaces a
// server. This must not make any call fail, get lost, run twice or get a wrong answer.
func TestBooksBalance(t *testing.T) {
	mcptest.Long(t)
	l := newLedger()
	l.told = t.Output()
	s, err := build(t.Context(), l, "warn")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var pulse sync.WaitGroup
	beating, stop := context.WithCancel(ctx)
	pulse.Go(func() { s.pulse(beating) })
	o := options{seed: 11, clients: 8}
	if err = s.heal(ctx); err == nil {
		in := s.injector(o)
		err = s.crowd(o.clients, o.seed).work(ctx, func() error {
			err := in.run(ctx, time.Now().Add(3*time.Second), "configuration changed")
			for err == nil && l.made() < 100 { // a busy machine takes longer
				err = in.run(ctx, time.Now().Add(time.Second), "configuration changed")
			}
			return err
		})
	}
	if err != nil {
		t.Error(err)
	}
	stop()
	pulse.Wait()
	if err := s.close(); err != nil {
		t.Error(err)
	}
	l.balance()
	s.readLogs()
	if text, wrong := l.report(); wrong > 0 {
		t.Errorf("%s\nthe replicas' logs are in %s", text, s.dir)
		return
	} else if t.Log(text); len(l.calls) < 100 {
		t.Errorf("only %d calls were made", len(l.calls))
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Error(err)
	}
}

// made is how many calls have begun.
func (l *ledger) made() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}
