package cluster

import (
	"io"
	"net/http"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestAsk: all other replicas answer; one without a handler says so, one that cannot be reached
// has an error, and what clients send does not get there.
func TestAsk(t *testing.T) {
	redis := redistest.Start(t)
	saying := func(what string) func(*Config, *Deps, *times) {
		return func(_ *Config, deps *Deps, _ *times) {
			deps.Asked = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, what+" "+r.Method+" "+r.URL.Path)
			})
		}
	}
	a, b, silent := startHouse(t, redis, sayWho, saying("a")), startHouse(t, redis, sayWho, saying("b")),
		startHouse(t, redis, sayWho)
	eventually(t, "they know each other", func() bool { return len(a.Peers()) == 2 })
	wants := map[string]Answer{
		b.Self():      {Status: http.StatusOK, Body: []byte("b DELETE /sessions/1")},
		silent.Self(): {Status: http.StatusServiceUnavailable, Body: []byte("this replica does not answer\n")},
	}
	for _, got := range a.Ask(t.Context(), http.MethodDelete, "/sessions/1") {
		want := wants[got.Replica]
		if got.Err != nil || got.Status != want.Status || string(got.Body) != string(want.Body) {
			t.Errorf("%s answers %d %q %v, want %d %q", got.Replica, got.Status, got.Body, got.Err, want.Status, want.Body)
		}
		delete(wants, got.Replica)
	}
	if len(wants) > 0 {
		t.Errorf("no answer of %v", wants)
	}
	b.crash()
	for _, got := range a.Ask(t.Context(), http.MethodGet, "/sessions") {
		if got.Replica == b.Self() && got.Err == nil {
			t.Errorf("a replica that has gone answers %+v", got)
		}
	}
	if alone := Alone().Ask(t.Context(), http.MethodGet, "/sessions"); alone != nil {
		t.Errorf("a gateway alone asks %v", alone)
	}
}
