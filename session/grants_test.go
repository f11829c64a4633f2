package session

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

func shownTo(t *testing.T, g *Grants, key, tool, digest string) bool {
	t.Helper()
	ok, err := g.Granted(t.Context(), key, tool, digest)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func show(t *testing.T, g *Grants, key, tool, digest string, ttl time.Duration) {
	t.Helper()
	if err := g.Grant(t.Context(), key, map[string]string{tool: digest}, ttl); err != nil {
		t.Fatal(err)
	}
}

func TestGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrants(nil)
		show(t, g, "u:1", "a", "x", 0)
		show(t, g, "u:~2", "a", "x", time.Hour)
		for _, tt := range []struct {
			key, tool, digest string
			want              bool
		}{
			{"u:1", "a", "x", true}, {"u:~2", "a", "x", true}, {"u:1", "b", "x", false}, {"u:3", "a", "x", false},
			{"v:1", "a", "x", false},
		} {
			if got := shownTo(t, g, tt.key, tt.tool, tt.digest); got != tt.want {
				t.Errorf("%v: %v", tt, got)
			}
		}
		time.Sleep(time.Hour)
		if shownTo(t, g, "u:~2", "a", "x") || !shownTo(t, g, "u:1", "a", "x") {
			t.Error("a grant ends at its time, a session's does not")
		}
		if shownTo(t, g, "u:1", "a", "y") || shownTo(t, g, "u:1", "a", "x") {
			t.Error("another definition is none that was shown, and ends the grant")
		}
		show(t, g, "u:1", "a", "y", 0)
		show(t, g, "u:1", "b", "x", 0)
		g.end("u:1")
		g.end("nobody")
		if shownTo(t, g, "u:1", "a", "y") || shownTo(t, g, "u:1", "b", "x") {
			t.Error("a session has ended, and its grants have not")
		}
		wantEmpty(t, g)
	})
}

// TestGrantsEndWithTheirHome: what was shown in a session is forgotten when its home is over.
func TestGrantsEndWithTheirHome(t *testing.T) {
	m, h := openMemory(t)
	g := NewGrants(m.Homes())
	for range 2 {
		show(t, g, h.String(), "a", "x", 0)
	}
	show(t, g, "v:1", "a", "x", 0)
	if err := h.End(t.Context(), home.Ended); err != nil {
		t.Fatal(err)
	}
	if shownTo(t, g, h.String(), "a", "x") || !shownTo(t, g, "v:1", "a", "x") {
		t.Error("a session has ended, and its grants have not, or another one's have")
	}
}

// wantEmpty checks that nothing is left.
func wantEmpty(t *testing.T, g *Grants) {
	t.Helper()
	if g.holders.Len() != 0 || len(g.users) != 0 || g.count != 0 {
		t.Errorf("left are %d holders, %d users, %d grants", g.holders.Len(), len(g.users), g.count)
	}
}

func TestGrantsHaveBounds(t *testing.T) {
	g := newGrants(nil, 20, 200, 5000)
	for i := range 30 {
		show(t, g, "u:1", fmt.Sprint(i), "x", 0)
	}
	if n := g.holder("u:1").grants.Len(); n != 20 || shownTo(t, g, "u:1", "9", "x") || !shownTo(t, g, "u:1", "10", "x") {
		t.Errorf("of one session %d are kept, and not the newest", n)
	}
	show(t, g, "v:1", "a", "x", 0)
	tools := make(map[string]string)
	for i := range 10 {
		tools[fmt.Sprint(i)] = "x"
	}
	for i := range 40 {
		if err := g.Grant(t.Context(), fmt.Sprintf("u:~%d", i), tools, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if n := g.users["u"].count; n > 200 || shownTo(t, g, "u:1", "29", "x") || shownTo(t, g, "u:~0", "1", "x") ||
		!shownTo(t, g, "u:~39", "1", "x") {
		t.Errorf("of one user %d are kept", n)
	}
	if !shownTo(t, g, "v:1", "a", "x") {
		t.Error("one user has taken another one's")
	}
	for i := range 1000 {
		if err := g.Grant(t.Context(), fmt.Sprintf("w%d:1", i), tools, 0); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 && !shownTo(t, g, "v:1", "a", "x") {
			t.Fatal("one that is used was forgotten")
		}
	}
	if g.count > 5000 || shownTo(t, g, "w0:1", "1", "x") {
		t.Errorf("in all %d are kept", g.count)
	}
	for _, key := range g.holders.Keys() {
		g.end(key)
	}
	wantEmpty(t, g)
}
