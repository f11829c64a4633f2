package hooks

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// service answers for an operator. It returns the documents that it gets.
func service(t *testing.T, answer func(w http.ResponseWriter, document mcp.Raw)) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
			r.Header.Get("X-Key") != "k" {
			t.Errorf("%s with %v, %v", r.Method, r.Header, err)
		}
		answer(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func says(text string) func(http.ResponseWriter, mcp.Raw) {
	return func(w http.ResponseWriter, _ mcp.Raw) { io.WriteString(w, text) }
}

func asks(url, onFailure string, on ...string) Hook {
	return Hook{Name: "dlp", On: on, HTTP: &HTTP{URL: url, Headers: map[string]mcp.Secret{"x-key": "k"},
		OnFailure: onFailure, MaxBytes: 4096}}
}

func TestHTTP(t *testing.T) {
	const (
		params = `{"name":"do","arguments":{"a":1.50}}`
		result = `{"content":[{"type":"text","text":"hi"}]}`
	)
	for _, tt := range []struct {
		name, on string
		answer   func(http.ResponseWriter, mcp.Raw)
		sent     string // to the server, "" for nothing
		left     string // for the client, "" for nothing
		reason   string
	}{
		{"pass", Arguments, says(`{"action":"pass"}`), params, result, ""},
		{"change of arguments", Arguments, says(`{"action":"change","content":{"b": 2.0}}`),
			`{"name":"do","arguments":{"b": 2.0}}`, result, ""},
		{"change of a result", Results, says(`{"action":"change","content":{"content":[] }}`), params, `{"content":[] }`, ""},
		{"refused arguments", Arguments, says(`{"action":"refuse","reason":"not\u0000this\u202e one\n"}`), "", "",
			"not this  one"},
		{"a refused result", Results, says(`{"action":"refuse","reason":"` + strings.Repeat("ä", 200) + `"}`), params, "",
			strings.Repeat("ä", 150) + "..."},
		{"refused without a reason", Results, says(`{"action":"refuse"}`), params, "", defaultReason},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{hooks: Config{asks(service(t, tt.answer), "", tt.on)}, serve: answers(result)}
			reply, err := w.handle(t, call(mcp.MethodToolsCall, params))
			if w.got == nil != (tt.sent == "") || w.got != nil && string(w.got.Params) != tt.sent {
				t.Errorf("the server got %v", w.got)
			}
			if tt.left != "" {
				if err != nil || string(reply.Result) != tt.left {
					t.Errorf("the client got %v, %v", reply, err)
				}
				return
			}
			wantRefused(t, err, map[string]string{Arguments: "no", Results: "yes"}[tt.on])
			if e, _ := errors.AsType[*mcp.Error](err); e.Data.At("reason").Text() != tt.reason {
				t.Errorf("the reason is in %s", e.Data)
			}
		})
	}
}

// TestHTTPFails: what a service does not judge passes only where the operator says so.
func TestHTTPFails(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	redirects := func(w http.ResponseWriter, _ mcp.Raw) {
		w.Header().Set("Location", "/other")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	for _, tt := range []struct {
		name string
		url  string
		size int // of the result
	}{
		{"nobody there", closed.URL, 1},
		{"an error", service(t, func(w http.ResponseWriter, _ mcp.Raw) { w.WriteHeader(http.StatusInternalServerError) }), 1},
		{"no JSON", service(t, says(`{"action":"pass"`)), 1},
		{"no object", service(t, says(`"pass"`)), 1},
		{"no action", service(t, says(`{}`)), 1},
		{"a change to nothing", service(t, says(`{"action":"change"}`)), 1},
		{"an endless answer", service(t, says(`{"action":"pass","x":"`+strings.Repeat("x", 100_000)+`"}`)), 1},
		{"a redirect", service(t, redirects), 1},
		{"too much content", service(t, says(`{"action":"pass"}`)), 5000},
	} {
		for _, onFailure := range []string{"", Refused, Passed} {
			t.Run(tt.name+" "+onFailure, func(t *testing.T) {
				result := string(mcp.Object("a", mcp.String(strings.Repeat("x", tt.size))))
				w := &world{hooks: Config{asks(tt.url, onFailure, Results)}, serve: answers(result)}
				c := call(mcp.MethodToolsCall, `{}`)
				reply, err := w.handle(t, c)
				if onFailure == Passed {
					if err != nil || string(reply.Result) != result || c.Verdict.Hooks[0].Action != "fail_open" {
						t.Errorf("%v, %v, %v", reply, err, c.Verdict.Hooks)
					}
					return
				}
				e, _ := errors.AsType[*mcp.Error](err)
				if e == nil || e.Name != failure.HookDown || e.Data.At("executed").Text() != "yes" ||
					c.Verdict.Hooks[0].Action != "fail_closed" {
					t.Fatalf("%v, %v", err, c.Verdict.Hooks)
				}
				if strings.Contains(e.Cause+e.Message, "127.0.0.1/") || !strings.HasPrefix(e.Cause, "dlp: ") {
					t.Errorf("the cause is %q", e.Cause)
				}
			})
		}
	}
}

// TestHTTPLeaves: a caller who leaves is not a failure of the service.
func TestHTTPLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	asked := make(chan struct{})
	url := service(t, func(http.ResponseWriter, mcp.Raw) { leave(); <-asked })
	hook := asks(url, Passed)
	hook.HTTP.Timeout = time.Minute
	all, err := New(Config{hook}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer close(asked)
	_, err = all.Middleware(mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) {
		t.Error("it ran")
		return nil, nil
	})).Handle(ctx, call(mcp.MethodToolsCall, `{"arguments":{}}`))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestDocument: a service is told what it is about, and is not asked about what nobody waits for.
func TestDocument(t *testing.T) {
	var got []string
	url := service(t, func(w http.ResponseWriter, document mcp.Raw) {
		got = append(got, string(document))
		io.WriteString(w, `{"action":"pass"}`)
	})
	w := &world{hooks: Config{asks(url, "")}}
	w.serve = func(c *mcp.Call) (*mcp.Reply, error) {
		c.Notify(mcp.Event{Method: mcp.NoteTask, Params: mcp.Raw(`{"taskId":"t","result":{}}`)})
		c.Notify(mcp.Event{Method: mcp.NoteTask, Params: mcp.Raw(`{"taskId":"t","status":"working"}`)})
		c.Notify(mcp.Event{Method: mcp.NoteProgress, Params: mcp.Raw(`{"message":"a"}`)})
		return &mcp.Reply{Result: mcp.Raw(`{"taskId":"t","status":"completed","result":{"x":1}}`)}, nil
	}
	c := call(mcp.MethodTasksUpdate, `{}`)
	c.ID, c.Caller = "c1", mcp.Caller{Issuer: "i", Subject: "alice", Groups: []string{"g"}, ClientID: "app"}
	c.Answers = map[string]mcp.Raw{"q": mcp.Raw(`{"action":"accept"}`)}
	if _, err := w.handle(t, c); err != nil {
		t.Fatal(err)
	}
	w.heard = nil
	if _, err := w.handle(t, &mcp.Call{Method: mcp.MethodListen}); err != nil {
		t.Fatal(err)
	}
	if len(w.heard) != 2 || string(w.heard[0].Params) != `{"taskId":"t","status":"working"}` {
		t.Errorf("heard was %v", w.heard)
	}
	c = call(mcp.MethodResourcesRead, `{}`)
	c.Target = mcp.Target{Kind: mcp.KindResources, Upstream: "up", Name: "a:b"}
	w.serve = func(*mcp.Call) (*mcp.Reply, error) {
		return nil, mcp.Relayed(-1, "no", nil)
	}
	if _, err := w.handle(t, c); !mcp.HasCode(err, -1) {
		t.Error(err)
	}
	const of = `"call":"c1","method":"tasks/update","target":{"kind":"tools","upstream":"up","name":"do"},"caller":{"issuer":"i","user":"alice","groups":["g"],"client":"app"}`
	const read = `"call":"","method":"resources/read","target":{"kind":"resources","upstream":"up","name":"a:b"},"caller":{"issuer":"","user":"","groups":[],"client":""}`
	want := []string{
		`{"on":"arguments","kind":"answer",` + of + `,"content":{"action":"accept"}}`,
		`{"on":"results","kind":"result",` + of + `,"content":{"x":1}}`,
		`{"on":"arguments","kind":"arguments",` + read + `,"content":null}`,
		`{"on":"results","kind":"error",` + read + `,"content":{"code":-1,"message":"no"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	w.hooks = Config{asks(service(t, says(`{"action":"change","content":{}}`)), "", Arguments)}
	if _, err := w.handle(t, c); mcp.FailureOf(err) != failure.HookDown {
		t.Errorf("a URI was changed: %v", err)
	}
}

// TestPrivateAuthority: a service may have a certificate of the operator's own.
func TestPrivateAuthority(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		io.WriteString(w, `{"action":"pass"}`)
	}))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{ca, ""} {
		hook := asks(s.URL, "")
		hook.HTTP.CAFile = file
		w := &world{hooks: Config{hook}, serve: answers(`{}`)}
		if _, err := w.handle(t, call(mcp.MethodToolsCall, `{}`)); (err == nil) != (file != "") {
			t.Errorf("with the authority %q: %v", file, err)
		}
	}
}
