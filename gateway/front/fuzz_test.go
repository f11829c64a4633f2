package front

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// FuzzEndpoint sends any body under any headers. Every answer is well formed: it has a
// meaningful status, and it is JSON or events if it says so.
func FuzzEndpoint(f *testing.F) {
	for _, file := range []string{"2026-07-28-calls", "2026-07-28-ask", "2025-11-25-session", "2025-03-26-session"} {
		data, err := os.ReadFile("testdata/" + file + ".txtar")
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range txtar.Parse(data).Files {
			if !strings.HasSuffix(section.Name, ">") {
				continue
			}
			head, body, _ := strings.Cut(string(section.Data), "\n\n")
			method, header, _ := strings.Cut(head, "\n")
			f.Add(method, header, body)
		}
	}
	f.Add("POST", "Mcp-Protocol-Version: 2026-07-28\nMcp-Method: subscriptions/listen",
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+
			meta+`}}`)
	f.Add("OPTIONS", "Origin: https://a.example\nAccess-Control-Request-Method: POST", "")
	front, sid := fuzzFront(f)
	f.Fuzz(func(t *testing.T, method, header, body string) {
		r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(body))
		r.Method = method
		r.Header.Set("Content-Type", "application/json")
		for line := range strings.SplitSeq(header, "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				value = strings.ReplaceAll(strings.TrimSpace(value), "{session}", sid)
				name = http.CanonicalHeaderKey(name)
				r.Header[name] = append(r.Header[name], value)
			}
		}
		ctx, cancel := context.WithCancel(mcp.WithCaller(t.Context(), mcp.NewCaller(mcp.Caller{})))
		defer cancel()
		if method == "GET" {
			cancel() // a stream would last as long as its client
		}
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r.WithContext(ctx))
		checkAnswer(t, w)
	})
}

// fuzzFront returns a front whose handler never waits, and a session of it.
func fuzzFront(f *testing.F) (*Front, string) {
	store, err := session.NewMemory(session.Config{MaxPerUser: 1 << 20}, session.Deps{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { store.Close() })
	key, err := seal.NewRandom("test")
	if err != nil {
		f.Fatal(err)
	}
	s := newScript()
	quick := mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		switch c.Name {
		case "slow", "late", "flood", "ask", "patience", "large", "panic":
			return nil, mcp.ErrUnknown(c.Method, c.Name)
		}
		if c.Method == mcp.MethodListen {
			filter, _ := c.Params.Member("notifications")
			c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", filter)})
			return result(`{}`), nil
		}
		return s.Handle(ctx, c)
	})
	front, err := newFront(Config{MaxRequestBytes: 1 << 16},
		Deps{Deps: exchange.Deps{Handler: quick, Store: store, Seal: key}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = front.Close(ctx) // its listeners end
	})
	record, err := store.Create(context.Background(),
		session.Record{User: mcp.Caller{}.User(), Revision: v2511, Initialized: true})
	if err != nil {
		f.Fatal(err)
	}
	return front, record.ID
}

func checkAnswer(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	switch w.Code {
	case 200, 202, 204, 400, 403, 404, 405, 406, 413, 415:
	default:
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	body := w.Body.Bytes()
	switch w.Header().Get("Content-Type") {
	case "application/json":
		if !json.Valid(body) {
			t.Errorf("status %d, no JSON: %s", w.Code, body)
		}
	case "text/event-stream":
		events := wire.NewEventReader(bytes.NewReader(body), 1<<24)
		for {
			e, err := events.Next()
			if err != nil {
				break
			}
			if len(e.Data) > 0 && !json.Valid(e.Data) {
				t.Errorf("no JSON in an event: %s", e.Data)
			}
		}
	default:
		if len(body) > 0 {
			t.Errorf("status %d, a body of no kind: %s", w.Code, body)
		}
	}
}
