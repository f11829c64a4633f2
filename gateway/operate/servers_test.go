package operate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// states returns the timeline, oldest first.
func states(s *Server) (all []string) {
	for _, c := range s.Changes() {
		text := string(c.State)
		if c.Failure.Error != "" {
			text += ": " + c.Failure.Error
		}
		if c.By != "" {
			text += ", " + c.Did + " by " + c.By
		}
		all = append(all, text)
	}
	slices.Reverse(all)
	return all
}

// TestTimeline: what calls and lists show is one state, and each change of it is there once.
func TestTimeline(t *testing.T) {
	b := NewBook()
	s := b.Of("crm")
	now := time.Now()
	called := func(state upstream.State, why string) upstream.Status {
		return upstream.Status{State: state, Since: now,
			Last: upstream.Failure{At: now, Name: failure.UpstreamDown, Error: why}}
	}
	listed := func(state catalog.State, name failure.Name, why string) catalog.UpstreamView {
		return catalog.UpstreamView{State: state, Since: now.Add(time.Second), Failed: name, LastError: why}
	}
	first := s.NewReports()
	first.Called(called(upstream.StateDown, "not begun")) // nobody has heard of it yet
	s.Begin(first, called(upstream.StateConnecting, ""), "", "")
	s.Listed(listed(catalog.StateConnecting, 0, ""))
	first.Called(called(upstream.StateReady, ""))
	s.Listed(listed(catalog.StateUp, 0, ""))
	s.Listed(listed(catalog.StateFailing, failure.UpstreamTimeout, "tools/list: slow"))
	s.Listed(listed(catalog.StateUp, 0, ""))
	first.Called(called(upstream.StateDown, "refused"))
	first.Called(called(upstream.StateDown, "refused"))
	second := s.NewReports()
	s.Begin(second, called(upstream.StateConnecting, ""), "alice", "reconnected")
	s.Begin(second, called(upstream.StateDown, ""), "", "")
	first.Called(called(upstream.StateDown, "of the former one"))
	second.Called(called(upstream.StateReady, "long ago"))
	if !s.Disable("bob") || s.Disable("carol") {
		t.Error("disabling says the wrong thing")
	}
	s.Listed(listed(catalog.StateDown, failure.UpstreamDisabled, "disabled"))
	if off := b.Of("crm").Off(); off == nil || off.By != "bob" || off.At.IsZero() {
		t.Errorf("off: %+v", off)
	}
	if !s.Enable("carol") || s.Enable("carol") {
		t.Error("enabling says the wrong thing")
	}
	s.Listed(listed(catalog.StateUp, 0, ""))
	more := listed(catalog.StateUp, 0, "")
	more.Withheld = []catalog.Withheld{{List: "tools", Reason: "too many", Behind: 8000}}
	s.Listed(more)
	want := []string{
		"connecting", "ready", "degraded: tools/list: slow", "ready", "down: refused",
		"connecting, reconnected by alice", "ready",
		"disabled, disabled by bob", "connecting, enabled by carol", "ready", "degraded: tools: too many",
	}
	if got := states(s); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for range mostChanges {
		second.Called(called(upstream.StateDown, "x"))
		second.Called(called(upstream.StateReady, ""))
	}
	if n := len(s.Changes()); n != mostChanges {
		t.Errorf("%d changes are kept", n)
	}
	b.Keep([]string{"other"})
	if len(b.Of("crm").Changes()) != 0 {
		t.Error("it is not forgotten")
	}
}

// TestNobody: without operators, nothing is remembered or guarded.
func TestNobody(t *testing.T) {
	var b *Book
	s := b.Of("crm")
	r := s.NewReports()
	s.Begin(r, upstream.Status{}, "", "")
	r.Called(upstream.Status{})
	s.Listed(catalog.UpstreamView{})
	b.Keep(nil)
	if s.Off() != nil || s.Changes() != nil {
		t.Error("something is remembered")
	}
}

// TestSizes: tools are measured once, until they, or what shortens them, change.
func TestSizes(t *testing.T) {
	measured := 0
	measure := func(tool mcp.Item) (int, int) { measured++; return len(tool.Raw), 1 }
	tools := func(n int) (all []mcp.Item) {
		for i := range n {
			all = append(all, mcp.Item{Name: fmt.Sprint(i), Raw: mcp.Raw(fmt.Sprintf(`{"name":"%03d"}`, i))})
		}
		return all
	}
	s, one, two := NewBook().Of("crm"), new(int), new(int)
	for i, tt := range []struct {
		n        int
		by       any
		measured int
	}{{3, one, 3}, {3, one, 0}, {4, one, 4}, {4, two, 4}, {4, two, 0}, {0, two, 0}} {
		measured = 0
		full, short := s.Sizes(tools(tt.n), tt.by, measure)
		if full != tt.n*14 || short != tt.n || measured != tt.measured {
			t.Errorf("%d: %d, %d, measured %d", i, full, short, measured)
		}
	}
	var nobody *Server
	if full, _ := nobody.Sizes(tools(1), one, measure); full != 14 {
		t.Error(full)
	}
}
