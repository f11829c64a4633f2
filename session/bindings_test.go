package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/session/sessiontest"
)

func TestBindingsInMemory(t *testing.T) {
	sessiontest.RunBindings(t, func(t *testing.T, test func(*testing.T, sessiontest.Bindings, sessiontest.Bindings, func(time.Duration))) {
		synctest.Test(t, func(t *testing.T) {
			all := sessiontest.NewMemoryBindings()
			test(t, all.Replica(), all.Replica(), time.Sleep)
		})
	})
}

func TestRedisBindings(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		server := redistest.Start(t)
		runBindings(t, server.URL(), server.Advance)
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t)
		runBindings(t, cluster.URL(), cluster.Advance)
	})
}

func runBindings(t *testing.T, url string, advance func(testing.TB, time.Duration)) {
	runs := 0
	sessiontest.RunBindings(t, func(t *testing.T, test func(*testing.T, sessiontest.Bindings, sessiontest.Bindings, func(time.Duration))) {
		runs++
		cfg := session.Config{Redis: redisdb.Config{Prefix: fmt.Sprintf("gatehouse-%d:", runs)}}
		a, b := newReplica(t, url, cfg, session.Deps{}), newReplica(t, url, cfg, session.Deps{})
		test(t, a.Bindings(), b.Bindings(), func(d time.Duration) { advance(t, d) })
	})
}

// What one replica tells of bindings all others hear, however long it is, and itself not.
func TestRedisBindingsTell(t *testing.T) {
	server := redistest.Start(t)
	heard := make(chan []byte, 10)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{OnBindings: func([]byte) { t.Error("it hears itself") }})
	newReplica(t, server.URL(), session.Config{}, session.Deps{
		OnBindings: func(m []byte) { heard <- m }, OnMail: func([]byte) { t.Error("it is taken for mail") }})
	for _, want := range [][]byte{[]byte("short"), bytes.Repeat([]byte("long"), 1<<18)} {
		if err := a.Bindings().Tell(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes came as %.20q", len(want), got)
			}
		case <-time.After(patience):
			t.Fatal("nothing is heard")
		}
	}
}

func TestRedisBindingsWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{}).Bindings()
	server.Kill()
	at, made := session.Place{Key: "u:AAAAAAAAAAAAAAAAAAAAAAAAAA", Server: "x"}, session.Binding{Tag: "1", Value: "v"}
	for what, step := range map[string]func(context.Context) error{
		"Take":    func(ctx context.Context) error { _, _, err := a.Take(ctx, at, "", time.Minute); return err },
		"Put":     func(ctx context.Context) error { _, _, err := a.Put(ctx, at, made); return err },
		"Keep":    func(ctx context.Context) error { _, _, err := a.Keep(ctx, at, made, 0, 0, ""); return err },
		"End":     func(ctx context.Context) error { _, err := a.End(ctx, at, "1"); return err },
		"Claim":   func(ctx context.Context) error { _, err := a.Claim(ctx, at, "q"); return err },
		"Release": func(ctx context.Context) error { return a.Release(ctx, at) },
		"Tell":    func(ctx context.Context) error { return a.Tell(ctx, []byte("m")) },
	} {
		if err := step(t.Context()); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
