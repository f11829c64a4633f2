package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// start serves a handler until the test ends.
func start(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func connect(t *testing.T, s scenario, url string) *client {
	t.Helper()
	c, err := dial(url+s.path(), s.stateless, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close() })
	return c
}

func TestScenariosDirectAndThroughBare(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			server := newServer(lists, false)
			direct := start(t, server)
			proxy, err := newBare(direct)
			if err != nil {
				t.Fatal(err)
			}
			next := s.request("", 3, mcp.Raw("{}"))
			for _, url := range []string{direct, start(t, proxy)} {
				c := connect(t, s, url)
				for range 3 {
					if err := s.run(c, next, 3); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// TestWrongAnswersAreFound has a proxy corrupt each answer and expects every scenario to
// notice.
func TestWrongAnswersAreFound(t *testing.T) {
	tests := []struct {
		name     string
		from, to string
	}{
		{"another text", "All work", "No work "},
		{"another id", `"id":1,`, `"id":9,`},
		{"another token", "token-3", "token-4"},
		{"events in another order", `"progress":7`, `"progress":8`},
		{"an event less", `notifications/progress`, `notifications/gossip00`},
		{"a tool less", `{"name":"list9__tool_49"`, `{"name":"list9__tool_49"},{`},
		{"an error", `"result":{`, `"error":{"code":1,"message":"m"},"x":{`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := false
			for _, s := range scenarios() {
				if !s.stateless {
					continue // these have no id to corrupt
				}
				url := start(t, spoil(newServer(lists, false), tt.from, tt.to))
				next := s.request("", 3, mcp.Raw("{}"))
				if err := s.run(connect(t, s, url), next, 3); err != nil {
					found = true
				}
			}
			if !found {
				t.Error("no scenario noticed")
			}
		})
	}
}

// spoil replaces a text in everything that a handler writes.
func spoil(h http.Handler, from, to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, r)
		w.Header().Set("Content-Type", recorder.Header().Get("Content-Type"))
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(bytes.ReplaceAll(recorder.Body.Bytes(), []byte(from), []byte(to)))
	})
}

func TestCheckCounts(t *testing.T) {
	call := scenarios()[0]
	list := scenarios()[5]
	tests := []struct {
		name     string
		scenario scenario
		gateway  bool
		posts    int // for 1000 requests
		upstream counts
		wantErr  bool
	}{
		{"each call once", call, true, 1000, counts{Calls: 1000}, false},
		{"a call twice", call, true, 1000, counts{Calls: 1001}, true},
		{"a call that never arrived", call, true, 1000, counts{Calls: 999}, true},
		{"a ping before each call", call, true, 1000, counts{Calls: 1000, Other: 1000}, true},
		{"lists from the catalog", list, true, 1000, counts{Other: 12}, false},
		{"a list asked for each time", list, true, 1000, counts{Other: 1000}, true},
		{"a bare list", list, false, 1000, counts{Other: 1000}, false},
		{"a bare list of two pages", list, false, 2000, counts{Other: 2000}, false},
		{"a bare list whose second page is from nowhere", list, false, 2000, counts{Other: 1000}, true},
		{"a bare list from nowhere", list, false, 1000, counts{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.scenario.checkCounts(slice{requests: 1000, posts: tt.posts, upstream: tt.upstream},
				target{gateway: tt.gateway}, background)
			if (err != nil) != tt.wantErr {
				t.Errorf("checkCounts() = %v, want error: %v", err, tt.wantErr)
			}
		})
	}
}

func TestNumbers(t *testing.T) {
	of := func(cpu time.Duration) slice {
		return slice{requests: 1000, elapsed: time.Second, cpu: cpu, latency: []time.Duration{1e6, 2e6, 3e6, 4e6},
			upstream: counts{Calls: 1000}}
	}
	r := result{slices: map[string][]slice{
		"bare":      {of(100 * time.Millisecond), of(200 * time.Millisecond), of(400 * time.Millisecond)},
		"gatehouse": {of(50 * time.Millisecond), of(150 * time.Millisecond), of(400 * time.Millisecond)},
	}}
	got := r.numbers("gatehouse", "bare")
	want := numbers{cpu: 150, rate: 1000, times: [3]float64{2, 4, 4}, posts: 1, ratio: 0.75}
	if got != want {
		t.Errorf("numbers() = %+v, want %+v", got, want)
	}
}

func TestGate(t *testing.T) {
	s := scenarios()[0]
	slow := result{scenario: s, slices: map[string][]slice{
		"bare":      {{requests: 1, elapsed: 1, cpu: 100}},
		"gatehouse": {{requests: 1, elapsed: 1, cpu: 101}},
	}}
	var out bytes.Buffer
	both := &rigged{targets: []target{{name: "bare"}, {name: "gatehouse", gateway: true}}, beside: "bare"}
	if err := report(t.Context(), &out, options{gate: true}, both, []result{slow}); err == nil {
		t.Errorf("a missed target passed:\n%s", out.String())
	}
	if err := report(t.Context(), &out, options{}, both, []result{slow}); err != nil {
		t.Errorf("without -gate: %v", err)
	}
}
