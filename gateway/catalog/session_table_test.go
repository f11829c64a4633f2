package catalog

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// text returns a difference with a content, of a given size.
func text(content string, size int) *difference {
	return &difference{sum: sha256.Sum256([]byte(content)), size: size}
}

// tells makes a list of a session outdated, and fetches it with a difference.
func tells(t *testing.T, table *sessionTable, session string, is *difference) (changed kindSet, lost []lostLists) {
	t.Helper()
	table.note("up", setOf(tools), mcp.SessionLists{Session: session, At: session, Lists: mcp.ToolLists, Told: true})
	return table.done(table.start(session, "up", setOf(tools)), ownDifference{tools: is})
}

func TestSessionTable(t *testing.T) {
	table := newSessionTable()
	if changed, _ := tells(t, table, "a:1", text("x", 1)); changed != setOf(tools) {
		t.Errorf("changed %b", changed)
	}
	if changed, _ := tells(t, table, "a:1", text("x", 1)); changed != 0 {
		t.Errorf("an equal difference: changed %b", changed)
	}
	tells(t, table, "b:1", text("x", 1))
	tells(t, table, "c:1", text("y", 1))
	if a, b, c := table.shown("a:1"), table.shown("b:1"), table.shown("c:1"); a.sum != b.sum || a.sum == c.sum {
		t.Error("sessions have one sum if they differ in the same way, and only then")
	}
	if got := table.shown("a:1").upstreams(); !slices.Equal(got, []string{"up"}) {
		t.Errorf("it differs at %q", got)
	}
	over := mcp.SessionLists{Session: "a:1", At: "another", Over: true}
	if lost := table.note("up", 0, over); lost != nil || table.shown("a:1") == nil {
		t.Errorf("the end of a former session took %v", lost)
	}
	over.At = "a:1"
	if lost := table.note("up", 0, over); len(lost) != 1 || lost[0] != (lostLists{"a:1", "up", setOf(tools)}) ||
		table.shown("a:1") != nil {
		t.Errorf("the end of the session took %v", lost)
	}
	f := table.start("b:1", "up", setOf(tools))
	table.note("up", setOf(tools, prompts), mcp.SessionLists{Session: "b:1", Lists: mcp.ToolLists, Told: true})
	if changed, _ := table.done(f, ownDifference{}); changed != setOf(tools) {
		t.Errorf("back to what all see: changed %b", changed)
	}
	if due, _ := table.outdated("b:1"); due["up"] != setOf(tools, prompts) {
		t.Errorf("news during a fetch: %v is outdated", due)
	}
	table.failed(table.start("b:1", "up", setOf(tools, prompts)))
	if due, later := table.outdated("b:1"); due != nil || len(later) != 1 {
		t.Errorf("after a failure: %v, later %v", due, later)
	}
	table.forget("b:1", "up")
	table.forget("c:1", "up")
	if table.all.Len() != 0 || table.bytes != 0 || table.known.Load() != 0 {
		t.Errorf("%d sessions with %d bytes remain", table.all.Len(), table.bytes)
	}
}

// TestFetchOfMore: what a fetch finds out of one list may take the differences of another one.
func TestFetchOfMore(t *testing.T) {
	table := newSessionTable()
	tells(t, table, "a:1", text("x", 1))
	f := table.start("a:1", "up", setOf(prompts))
	f.kinds, f.told = f.kinds|setOf(tools), f.told|setOf(tools)
	if changed, _ := table.done(f, ownDifference{}); changed != setOf(tools) || f.told != setOf(tools) ||
		table.shown("a:1") != nil {
		t.Errorf("changed %b, told %b, shown %v", changed, f.told, table.shown("a:1"))
	}
}

// TestSessionTableIsBounded: beyond a bound, the session whose client called longest ago loses.
func TestSessionTableIsBounded(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		table := newSessionTable()
		for i := range 4 {
			tells(t, table, fmt.Sprint("a:", i), text("x", maxSessionBytes/4))
		}
		table.shown("a:0") // its client calls
		_, lost := tells(t, table, "a:4", text("x", 1))
		if len(lost) != 1 || lost[0].session != "a:1" || table.shown("a:1") != nil || table.shown("a:0") == nil {
			t.Errorf("lost: %v", lost)
		}
		if _, lost = tells(t, table, "a:5", text("x", maxSessionBytes+1)); len(lost) != 5 || table.bytes != 0 {
			t.Errorf("lost: %v, %d bytes remain", lost, table.bytes)
		}
	})
	t.Run("sessions", func(t *testing.T) {
		table := newSessionTable()
		tells(t, table, "a:0", text("x", 1))
		var lost []lostLists
		for i := range maxSessions {
			lost = append(lost, table.note("up", setOf(tools),
				mcp.SessionLists{Session: fmt.Sprint("b:", i), Lists: mcp.ToolLists})...)
		}
		if len(lost) != 1 || lost[0].session != "a:0" || table.all.Len() != maxSessions {
			t.Errorf("lost: %v", lost)
		}
	})
	t.Run("arrivals", func(t *testing.T) {
		table := newSessionTable()
		table.arrive("a:1")
		if !table.hasArrived("a:1") || table.hasArrived("a:1") {
			t.Error("it arrives once")
		}
	})
}
