package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// web is an HTTP receiver that answers as its script says, and at the end of it takes all.
type web struct {
	*httptest.Server
	accept func(body []byte) string // reads what it takes into lines

	mu     sync.Mutex // guards the fields below
	script []func(http.ResponseWriter)
	taken  map[string]bool // ids
	lines  strings.Builder
	asked  []*http.Request
	bodies []string
}

func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// cut takes nothing and closes the connection.
func cut(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// takes takes a request and then answers; see web.ServeHTTP.
func takes(answer func(http.ResponseWriter)) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.(*taking).take()
		answer(w)
	}
}

type taking struct {
	http.ResponseWriter
	take func()
}

// newWeb starts a receiver, with TLS where certFile is given.
func newWeb(t *testing.T, certFile, keyFile string, script ...func(http.ResponseWriter)) *web {
	t.Helper()
	w := &web{script: script, taken: make(map[string]bool), accept: func(body []byte) string { return string(body) }}
	w.Server = httptest.NewUnstartedServer(w)
	w.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	if certFile != "" {
		w.TLS = serverTLS(t, certFile, keyFile)
		w.StartTLS()
	} else {
		w.Start()
	}
	t.Cleanup(w.Close)
	return w
}

// ServeHTTP drops what it has taken already, by webhook-id.
func (s *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.bodies = append(s.asked, r), append(s.bodies, string(body))
	take := func() {
		if id := r.Header.Get("webhook-id"); id == "" || !s.taken[id] {
			s.taken[id] = true
			s.lines.WriteString(s.accept(body))
		}
	}
	if len(s.script) == 0 {
		take()
		return
	}
	next := s.script[0]
	s.script = s.script[1:]
	next(&taking{w, take})
}

func (s *web) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.String()
}

// TestWebhookTriesAgain: whatever goes wrong on the way, each record arrives in its place; and
// what arrives twice has the same id.
func TestWebhookTriesAgain(t *testing.T) {
	t.Parallel()
	for name, script := range map[string][]func(http.ResponseWriter){
		"server error":      {status(500), status(503), status(502)},
		"cut":               {cut, cut},
		"taken, then cut":   {takes(cut), takes(cut)},
		"taken, then error": {takes(status(504))},
		"not allowed":       {status(401), status(403), status(404), status(405)},
		"redirect":          {status(307, "Location", "http://127.0.0.1:1/")},
		"too fast":          {status(429, "Retry-After", "0")},
		"bad, in block":     {status(400), status(413), status(422)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, "", "", script...)
			metrics := NewMetrics(prometheus.NewRegistry())
			j := started(t, remoteConfig(OnFullBlock, 0, Sink{Type: TypeWebhook, URL: w.URL + "/in"}),
				Deps{Metrics: metrics, retry: short})
			j.Put(call("1"))
			j.Put(call("2"))
			closed(t, j)
			wantRows(t, rows(t, w.text()), "anchor start", "1", "2", "anchor stop")
			if n := value(t, metrics.failures); n != float64(len(script)) {
				t.Errorf("%v failures", n)
			}
		})
	}
}

// TestWebhookRefuses: where records may be lost, those that the receiver will never take are
// given up, and a record says how many.
func TestWebhookRefuses(t *testing.T) {
	t.Parallel()
	w := newWeb(t, "", "", status(200), status(422), status(400)) // the first has the anchor alone
	metrics := NewMetrics(prometheus.NewRegistry())
	j := started(t, remoteConfig(OnFullDrop, 0, Sink{Type: TypeWebhook, URL: w.URL}), Deps{Metrics: metrics, retry: short})
	until(t, "the start", func() bool { return value(t, metrics.records) == 1 })
	j.Put(call("1"))
	until(t, "the loss", func() bool { return value(t, metrics.dropped) == 1 })
	until(t, "the record of it", func() bool { return value(t, metrics.records) > 1 })
	j.Put(call("2"))
	closed(t, j)
	var got []string
	for line := range strings.Lines(w.text()) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(r.Seq, " ", r))
	}
	if want := []string{"2 gap 1", "3 2", "4 anchor stop"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := value(t, metrics.dropped); n != 1 {
		t.Errorf("%v are lost", n)
	}
}

// TestWebhookRequests: what a request looks like, over TLS on both sides; and that many records
// are several requests.
func TestWebhookRequests(t *testing.T) {
	t.Parallel()
	certFile, keyFile := certificates(t)
	w := newWeb(t, certFile, keyFile)
	sink := Sink{Type: TypeWebhook, URL: w.URL + "/in?x=y", CAFile: certFile, CertFile: certFile, KeyFile: keyFile,
		Headers: map[string]mcp.Secret{"authorization": "Bearer s3cret"}, Sign: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	j := started(t, remoteConfig("", 0, sink), Deps{retry: short})
	for i := range 20 {
		j.Put(&record.Record{Kind: record.KindCall, ID: fmt.Sprint(i),
			Arguments: []byte(`"` + strings.Repeat("x", 100<<10) + `"`)})
	}
	closed(t, j)
	if n := len(rows(t, w.text())); n != 22 {
		t.Errorf("%d records", n)
	}
	if len(w.asked) < 3 {
		t.Errorf("%d requests for 2 MB", len(w.asked))
	}
	for i, r := range w.asked {
		body := w.bodies[i]
		if len(body) > partBytes {
			t.Errorf("a request has %d bytes", len(body))
		}
		h := r.Header
		if r.Method != "POST" || r.RequestURI != "/in?x=y" || h.Get("Content-Type") != "application/x-ndjson" ||
			h.Get("Authorization") != "Bearer s3cret" {
			t.Errorf("%s %s %v", r.Method, r.RequestURI, h)
		}
		id, at := h.Get("webhook-id"), h.Get("webhook-timestamp")
		if !strings.HasSuffix(body, `"hash":"`+id+"\"}\n") ||
			h.Get("webhook-signature") != webhookSignature([]byte(exampleKey), id, at, []byte(body)) {
			t.Errorf("%v", h)
		}
	}
}

// exampleKey is the key of the example of Standard Webhooks.
const exampleKey = "\x31\xf2\x90\xf6\xbf\x06\x29\x8a\xab\x4f\x08\xd4\x3c\x3f\x08\x2c\xf6\x48\xa3\x62\xda\x2d\xa4\xb0"

// TestWebhookSignature: signatures are those of Standard Webhooks' own example.
func TestWebhookSignature(t *testing.T) {
	key, err := signingKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil || string(key) != exampleKey {
		t.Fatal(key, err)
	}
	if got := webhookSignature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		[]byte(`{"test": 2432232314}`)); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
	for _, bad := range []mcp.Secret{"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8G", "whsec_!"} {
		if _, err := signingKey(bad); err == nil {
			t.Errorf("%q is taken", string(bad))
		}
	}
}

// TestWebhookLeavesDeadConnections: a connection on which nothing was answered is not used again.
func TestWebhookLeavesDeadConnections(t *testing.T) {
	t.Parallel()
	certFile, keyFile := certificates(t)
	var mu sync.Mutex
	var from []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from = append(from, r.Proto+" "+r.RemoteAddr)
		first := len(from) == 1
		mu.Unlock()
		if first {
			<-r.Context().Done()
		}
	}))
	server.TLS, server.EnableHTTP2 = serverTLS(t, certFile, keyFile), true
	server.StartTLS()
	defer server.Close()
	sink := Sink{Type: TypeWebhook, URL: server.URL, Timeout: time.Second, CAFile: certFile, CertFile: certFile,
		KeyFile: keyFile}
	j := started(t, remoteConfig("", 0, sink), Deps{retry: short})
	closed(t, j)
	mu.Lock()
	defer mu.Unlock()
	if len(from) < 3 || from[0] == from[1] || !strings.HasPrefix(from[0], "HTTP/2") {
		t.Errorf("requests came from %q", from)
	}
}

// asks is an output that wants to be left alone for a while, once.
type asks struct {
	writer
	after time.Duration
	at    []time.Time
	again chan struct{} // closed at the second write
}

func (a *asks) write(ctx context.Context, entries []entry) error {
	a.at = append(a.at, time.Now())
	switch len(a.at) {
	case 1:
		return &refusal{err: io.EOF, after: a.after}
	case 2:
		close(a.again)
	}
	return a.writer.write(ctx, entries)
}

// TestPauses: the worker waits as long as a receiver asks it to.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to pipe
		out := &asks{writer: writer{to: &to}, after: 42 * time.Second, again: make(chan struct{})}
		j := started(t, Config{}, Deps{})
		w := newWorker(setup{sink: Sink{Name: "x"}}, out, j, nil, 1)
		go w.run()
		<-out.again
		w.end()
		<-w.done
		if took := out.at[1].Sub(out.at[0]); took != 42*time.Second {
			t.Errorf("it waits %s", took)
		}
		closed(t, j)
	})
}

// TestHTTPLogsNoSecrets: what is said of a receiver that fails shows neither its URL nor a header.
func TestHTTPLogsNoSecrets(t *testing.T) {
	t.Parallel()
	w := newWeb(t, "", "", cut)
	var log pipe
	j := started(t, remoteConfig("", 0, Sink{Type: TypeWebhook, URL: w.URL + "/s3cret?s3cret",
		Headers: map[string]mcp.Secret{"X-Key": "s3cret"}}),
		Deps{retry: short, Log: slog.New(slog.NewTextHandler(&log, nil))})
	closed(t, j)
	if text := log.String(); !strings.Contains(text, "error_code=GH-AUDIT-SINK-DOWN sink=webhook on_full=drop") ||
		strings.Contains(text, "s3cret") {
		t.Error(text)
	}
}
