package sessionlists

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// text is a difference of a given size.
type text struct {
	text string
	size int
}

func (d text) Size() int              { return d.size }
func (d text) Sum() [sha256.Size]byte { return sha256.Sum256([]byte(d.text)) }

const (
	tools uint32 = 1 << iota
	prompts
)

// told makes a list of a session outdated, and fetches it with a difference.
func told(t *testing.T, table *Table[text], session string, is text) (changed uint32, lost []Lost) {
	t.Helper()
	table.Hear("up", tools, mcp.SessionLists{Session: session, At: session, Lists: mcp.ToolLists, Told: true})
	return table.Done(table.Begin(session, "up", tools), map[uint32]text{tools: is})
}

func TestTable(t *testing.T) {
	table := New[text]()
	if changed, _ := told(t, table, "a:1", text{"x", 1}); changed != tools {
		t.Errorf("changed %b", changed)
	}
	if changed, _ := told(t, table, "a:1", text{"x", 1}); changed != 0 {
		t.Errorf("an equal difference: changed %b", changed)
	}
	told(t, table, "b:1", text{"x", 1})
	told(t, table, "c:1", text{"y", 1})
	if a, b, c := table.Shown("a:1"), table.Shown("b:1"), table.Shown("c:1"); a.Sum != b.Sum || a.Sum == c.Sum {
		t.Error("sessions have one sum if they differ in the same way, and only then")
	}
	if got := table.Shown("a:1").Upstreams(); !slices.Equal(got, []string{"up"}) {
		t.Errorf("it differs at %q", got)
	}
	over := mcp.SessionLists{Session: "a:1", At: "another", Over: true}
	if lost := table.Hear("up", 0, over); lost != nil || table.Shown("a:1") == nil {
		t.Errorf("the end of a former session took %v", lost)
	}
	over.At = "a:1"
	if lost := table.Hear("up", 0, over); len(lost) != 1 || lost[0] != (Lost{"a:1", "up", tools}) || table.Shown("a:1") != nil {
		t.Errorf("the end of the session took %v", lost)
	}
	f := table.Begin("b:1", "up", tools)
	table.Hear("up", tools|prompts, mcp.SessionLists{Session: "b:1", Lists: mcp.ToolLists, Told: true})
	if changed, _ := table.Done(f, nil); changed != tools {
		t.Errorf("back to what all see: changed %b", changed)
	}
	if due, _ := table.Outdated("b:1"); due["up"] != tools|prompts {
		t.Errorf("news during a fetch: %v is outdated", due)
	}
	table.Failed(table.Begin("b:1", "up", tools|prompts))
	if due, later := table.Outdated("b:1"); due != nil || len(later) != 1 {
		t.Errorf("after a failure: %v, later %v", due, later)
	}
	table.Drop("b:1", "up")
	table.Drop("c:1", "up")
	if table.all.Len() != 0 || table.bytes != 0 || table.known.Load() != 0 {
		t.Errorf("%d sessions with %d bytes remain", table.all.Len(), table.bytes)
	}
}

// TestAlso: what a fetch finds out of one list may take the differences of another one.
func TestAlso(t *testing.T) {
	table := New[text]()
	told(t, table, "a:1", text{"x", 1})
	f := table.Begin("a:1", "up", prompts)
	f.Also(tools)
	if changed, _ := table.Done(f, nil); changed != tools || f.Told() != tools || table.Shown("a:1") != nil {
		t.Errorf("changed %b, told %b, shown %v", changed, f.Told(), table.Shown("a:1"))
	}
}

// TestBounds: beyond a bound, the session whose client called longest ago loses.
func TestBounds(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		table := New[text]()
		for i := range 4 {
			told(t, table, fmt.Sprint("a:", i), text{"x", MostBytes / 4})
		}
		table.Shown("a:0") // its client calls
		_, lost := told(t, table, "a:4", text{"x", 1})
		if len(lost) != 1 || lost[0].Session != "a:1" || table.Shown("a:1") != nil || table.Shown("a:0") == nil {
			t.Errorf("lost: %v", lost)
		}
		if _, lost = told(t, table, "a:5", text{"x", MostBytes + 1}); len(lost) != 5 || table.bytes != 0 {
			t.Errorf("lost: %v, %d bytes remain", lost, table.bytes)
		}
	})
	t.Run("sessions", func(t *testing.T) {
		table := New[text]()
		told(t, table, "a:0", text{"x", 1})
		var lost []Lost
		for i := range Most {
			lost = append(lost, table.Hear("up", tools, mcp.SessionLists{Session: fmt.Sprint("b:", i), Lists: mcp.ToolLists})...)
		}
		if len(lost) != 1 || lost[0].Session != "a:0" || table.all.Len() != Most {
			t.Errorf("lost: %v", lost)
		}
	})
	t.Run("arrivals", func(t *testing.T) {
		table := New[text]()
		table.Arrive("a:1")
		if !table.Arrived("a:1") || table.Arrived("a:1") {
			t.Error("it arrives once")
		}
	})
}
