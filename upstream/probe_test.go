package upstream_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestProbeHTTP(t *testing.T) {
	answerTo := func(status int, body string) func(http.ResponseWriter, fake.Message) {
		return func(w http.ResponseWriter, m fake.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(strings.ReplaceAll(body, "$ID", string(m.ID))))
		}
	}
	rpcError := func(e string) string { return `{"jsonrpc":"2.0","id":$ID,"error":` + e + `}` }
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, fake.Message)
		want   string // stateless, stateful, or inconclusive
		code   int    // of an inconclusive one
	}{
		{"a stateless revision is offered", answerTo(200,
			`{"jsonrpc":"2.0","id":$ID,"result":{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{}}}`),
			"stateless", 0},
		{"only stateful ones are offered", answerTo(200,
			`{"jsonrpc":"2.0","id":$ID,"result":{"supportedVersions":["2025-11-25"],"capabilities":{}}}`), "stateful", 0},
		{"400 -32022 that offers a stateless one", answerTo(400,
			rpcError(`{"code":-32022,"message":"v","data":{"supported":["2026-07-28"]}}`)), "stateless", 0},
		{"400 -32022 that offers stateful ones", answerTo(400,
			rpcError(`{"code":-32022,"message":"v","data":{"supported":["2025-11-25"]}}`)), "stateful", 0},
		{"400 -32020", answerTo(400, rpcError(`{"code":-32020,"message":"header"}`)), "stateless", 0},
		{"400 -32021", answerTo(400, rpcError(`{"code":-32021,"message":"capability"}`)), "stateless", 0},
		{"400 -32000", answerTo(400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`),
			"stateful", 0},
		{"400 empty", answerTo(400, ""), "stateful", 0},
		{"404 empty", answerTo(404, ""), "stateful", 0},
		{"404 -32601", answerTo(404, rpcError(`{"code":-32601,"message":"Method not found"}`)), "stateful", 0},
		{"405", answerTo(405, "no"), "stateful", 0},
		{"200 -32601", answerTo(200, rpcError(`{"code":-32601,"message":"Method not found"}`)), "stateful", 0},
		{"200 -32602", answerTo(200, rpcError(`{"code":-32602,"message":"Invalid request parameters"}`)), "stateful", 0},
		{"401", answerTo(401, ""), "inconclusive", mcp.CodeUpstreamAuthFailed},
		{"403", answerTo(403, rpcError(`{"code":-32600,"message":"no"}`)), "inconclusive", mcp.CodeUpstreamAuthFailed},
		{"429", answerTo(429, ""), "inconclusive", mcp.CodeRateLimited},
		{"500", answerTo(500, "oops"), "inconclusive", mcp.CodeUpstreamBadAnswer},
		{"503", answerTo(503, ""), "inconclusive", mcp.CodeUpstreamUnreachable},
		{"redirect", func(w http.ResponseWriter, _ fake.Message) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(307)
		}, "inconclusive", mcp.CodeUpstreamBadAnswer},
		{"HTML with 200", func(w http.ResponseWriter, _ fake.Message) { fake.Raw(w, "text/html", "<html>") }, "inconclusive",
			mcp.CodeUpstreamBadAnswer},
		{"not JSON with 200", func(w http.ResponseWriter, _ fake.Message) {
			fake.Raw(w, "application/json", "{")
		}, "inconclusive",
			mcp.CodeUpstreamBadAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sane := atomic.Bool{}
			f := fake.New(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
				first := m.Method == mcp.MethodDiscover || tt.want == "inconclusive" && m.Method == mcp.MethodInitialize
				if !first || sane.Load() {
					return false
				}
				tt.answer(w, m)
				return true
			})
			u := fake.Start(t, upstream.Config{URL: f.URL})
			reply, err := fake.Do(t, u, fake.Tool("a"))
			if tt.want == "inconclusive" {
				if e := fake.WantError(t, err, tt.code, mcp.ExecutedNo); !strings.Contains(e.Message, "fake") {
					t.Errorf("message %q does not name the upstream", e.Message)
				}
				if n, want := len(f.Requests(mcp.MethodInitialize)), tt.code != mcp.CodeRateLimited; n > 1 || n == 1 != want {
					t.Errorf("%d times initialize", n)
				}
				sane.Store(true) // the failed probe concluded nothing: the next call probes again
				fake.WantOK(t, u, fake.Tool("a"))
				return
			}
			if err != nil || string(reply.Result) != fake.OK {
				t.Fatalf("reply %v, error %v", reply, err)
			}
			initialized := len(f.Requests(mcp.MethodInitialize)) == 1
			if initialized != (tt.want == "stateful") {
				t.Errorf("initialize sent: %v, want a %s server", initialized, tt.want)
			}
			fake.WantOK(t, u, fake.Tool("a"))
			if n := len(f.Requests(mcp.MethodDiscover)); n != 1 {
				t.Errorf("probed %d times", n)
			}
		})
	}
}

// TestStumbledProbe: an older server may answer the probe with anything; initialize decides.
func TestStumbledProbe(t *testing.T) {
	stumble := func(t *testing.T, newFake func(*testing.T, bool, fake.Handler) *fake.Server, answer http.HandlerFunc) {
		f := newFake(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodDiscover {
				return false
			}
			answer(w, r)
			return true
		})
		u := f.Upstream(t, upstream.Config{})
		fake.WantOK(t, u, fake.Tool("a"))
		fake.WantOK(t, u, fake.Tool("a"))
		if n := len(f.Requests(mcp.MethodDiscover)); n != 1 {
			t.Errorf("probed %d times", n)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }},
		{"503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }},
		{"401", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }},
		{"202 and nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { fake.Raw(w, "text/html", "<html>") }},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { fake.Raw(w, "application/json", "{") }},
		{"the end of the connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(tt.name, func(t *testing.T) { stumble(t, fake.New, tt.answer) })
	}
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			stumble(t, fake.NewBubble, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		})
	})
	t.Run("neither is answered", func(t *testing.T) {
		f := fake.New(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			status := http.StatusNotFound
			if m.Method == mcp.MethodDiscover {
				status = http.StatusInternalServerError
			}
			w.WriteHeader(status)
			return true
		})
		u := fake.Start(t, upstream.Config{URL: f.URL, Transport: "streamable"})
		for n := range 2 {
			_, err := fake.Do(t, u, fake.Tool("a"))
			if e := fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo); !strings.Contains(e.Cause,
				`HTTP status 500; `) || !strings.Contains(e.Cause, `"revision" pins it`) {
				t.Errorf("cause %q", e.Cause)
			}
			if got := len(f.Requests(mcp.MethodDiscover)); got != n+1 {
				t.Errorf("probed %d times after %d calls: it concluded something", got, n+1)
			}
		}
	})
}

func TestEraIsProbedAgainWhenItProvesWrong(t *testing.T) {
	for _, tt := range []struct {
		name string
		was  bool   // it was stateful
		says string // the stateless server's answer to a request of the other era, "" for 404
	}{
		{"stateless server becomes stateful", false, ""},
		{"stateful server becomes stateless", true, ""},
		{"and says that a header is missing", true, `{"code":-32020,"message":"Mcp-Method is missing"}`},
		{"and says what it speaks", true,
			`{"code":-32022,"message":"m","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stateful := atomic.Bool{}
			stateful.Store(tt.was)
			f := fake.New(t, tt.was, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
				switch {
				case m.Method == mcp.MethodDiscover && !stateful.Load():
					fake.Result(w, m, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
				case m.Method == mcp.MethodDiscover:
					w.WriteHeader(404)
				case r.Method != http.MethodPost || m.ID == nil:
					return false
				case !stateful.Load() && r.Header.Get("Mcp-Method") == "" && tt.says != "":
					fake.Failure(w, 400, m, tt.says)
				case !stateful.Load() && r.Header.Get("Mcp-Method") == "":
					w.WriteHeader(404)
				case stateful.Load() && m.Method != mcp.MethodInitialize && r.Header.Get("Mcp-Session-Id") == "":
					w.WriteHeader(404)
				default:
					return false
				}
				return true
			})
			u := fake.Start(t, upstream.Config{URL: f.URL})
			fake.WantOK(t, u, fake.Tool("a"))
			stateful.Store(!tt.was)
			fake.WantOK(t, u, fake.Tool("a"))
			if n := len(f.Requests(mcp.MethodDiscover)); n != 2 {
				t.Errorf("probed %d times, want 2", n)
			}
			if got := u.Status().Stateful; stateful.Load() && !got {
				t.Errorf("status says stateful: %v", got)
			}
		})
	}
}

func TestNeitherEra(t *testing.T) {
	f := fake.New(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		w.WriteHeader(404)
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	_, err := fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo)
	if s := u.Status(); s.State != upstream.StateDown || s.Last.Error == "" {
		t.Errorf("status %+v", s)
	}
}

// TestServerWithoutCapabilities: a server that declares none is there; one whose are no object is told of.
func TestServerWithoutCapabilities(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		for caps, good := range map[string]bool{"": true, `"capabilities":null,`: true, `"capabilities":["tools"],`: false} {
			f := fake.New(t, stateful, func(f *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
				switch {
				case m.Method == mcp.MethodInitialize:
					fake.Result(w, m, `{`+caps+`"protocolVersion":"2025-11-25"}`)
				case m.Method == mcp.MethodDiscover && !stateful:
					fake.Result(w, m, `{`+caps+`"resultType":"complete","supportedVersions":["2026-07-28"]}`)
				default:
					return false
				}
				return true
			})
			u := fake.Start(t, upstream.Config{URL: f.URL})
			reply, err := fake.Do(t, u, fake.List(mcp.MethodDiscover))
			if good && (err != nil || string(reply.Result.At("capabilities")) != "{}") {
				t.Errorf("stateful %v, %q: %+v %v", stateful, caps, reply, err)
			}
			if !good && !strings.Contains(fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown).Cause,
				"its capabilities are no object") {
				t.Errorf("stateful %v, %q: %v", stateful, caps, err)
			}
		}
	}
}

func TestRevisionPinSkipsTheProbe(t *testing.T) {
	for _, tt := range []struct{ name, pin, first string }{
		{"stateful", "2025-06-18", mcp.MethodInitialize},
		{"stateless", "2026-07-28", mcp.MethodToolsCall},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake.New(t, tt.name == "stateful", nil)
			f.Version = tt.pin
			u := fake.Start(t, upstream.Config{URL: f.URL, Revision: tt.pin})
			fake.WantOK(t, u, fake.Tool("a"))
			if got := f.Requests("")[0]; got.Method != tt.first {
				t.Errorf("first request %s, want %s", got.Method, tt.first)
			}
		})
	}
}

func TestRefusedConnection(t *testing.T) {
	f := fake.New(t, true, nil)
	f.Close()
	u := fake.Start(t, upstream.Config{URL: f.URL})
	_, err := fake.Do(t, u, fake.Tool("a"))
	e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
	if !strings.Contains(e.Message, "connection refused") {
		t.Errorf("message %q does not say why", e.Message)
	}
}

// TestProbeAgain: a probe that an operator asks for says what was tried, finds another era, and
// lets the next call through at once after earlier ones could not reach the server.
func TestProbeAgain(t *testing.T) {
	t.Run("stateless", func(t *testing.T) {
		f := fake.New(t, false, nil)
		u := f.Upstream(t, upstream.Config{})
		for range 2 {
			steps, err := u.Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(steps) != 1 || steps[0].Method != mcp.MethodDiscover || steps[0].Found != "it speaks 2026-07-28" ||
				steps[0].At.IsZero() {
				t.Errorf("steps: %+v", steps)
			}
		}
		fake.WantOK(t, u, fake.Tool("work"))
	})
	t.Run("stateful", func(t *testing.T) {
		f := fake.New(t, true, nil)
		u := f.Upstream(t, upstream.Config{})
		fake.WantOK(t, u, fake.Tool("work"))
		before, open := len(f.Requests("initialize")), u.Status().Sessions
		steps, err := u.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(steps) != 2 || steps[1].Method != "initialize" || !strings.HasPrefix(steps[1].Found, "it speaks 20") {
			t.Errorf("steps: %+v", steps)
		}
		if n := len(f.Requests("initialize")); n != before+1 || u.Status().Sessions != open {
			t.Errorf("%d sessions were begun, %d are open; want 1 more and %d", n-before, u.Status().Sessions, open)
		}
		if u.Status().Capabilities == nil {
			t.Error("its capabilities are not known")
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		u := fake.Start(t, upstream.Config{URL: "http://127.0.0.1:1/"})
		for range 6 {
			_, err := fake.Do(t, u, fake.Tool("work"))
			fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
		}
		if u.Status().Refused.IsZero() {
			t.Error("calls are not refused")
		}
		steps, err := u.Probe(t.Context())
		fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
		if len(steps) != 1 || steps[0].Failed.String() != "GH-UPSTREAM-DOWN" ||
			!strings.Contains(steps[0].Cause, "127.0.0.1:1") || steps[0].Found != "" {
			t.Errorf("steps: %+v", steps)
		}
		if !u.Status().Refused.IsZero() {
			t.Error("the next call is refused, too")
		}
	})
}

func TestProbeOverStdio(t *testing.T) {
	for _, role := range []string{"answers -32602", "silent on discover", "late on discover", "exits on discover"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			cfg := fake.Command(t, role)
			cfg.Timeout.Connect = 8 * time.Second // the probe may be silent for half of it
			u := fake.Start(t, cfg)
			fake.WantOK(t, u, fake.Tool("a"))
			if s := u.Status(); !s.Stateful || s.Revision != "2025-06-18" {
				t.Errorf("status %+v", s)
			}
		})
	}
}
