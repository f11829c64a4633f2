package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// cluster is a scripted API server: each request gets the next answer.
type cluster struct {
	*httptest.Server
	requests chan *http.Request
	answers  chan func(w http.ResponseWriter)
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{requests: make(chan *http.Request, 100), answers: make(chan func(http.ResponseWriter), 100)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests <- r
		select {
		case answer := <-c.answers:
			answer(w)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func text(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { io.WriteString(w, body) }
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

// record is a log that tests read.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (c *cluster) config(t *testing.T) (Config, *record) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	log := &record{}
	return Config{API: c.URL, HTTP: client, Bearer: func() (string, error) { return "pod-token", nil },
		Selector: "gatehouse.dev/mcp=true", Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil))}, log
}

func one(namespace, name, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"resourceVersion":"7"%s},`+
		`"spec":{"ports":[{"name":"mcp","port":8000},{"name":"https","port":8443}]}}`, name, namespace, more)
}

func list(items ...string) func(http.ResponseWriter) {
	return text(`{"metadata":{"resourceVersion":"5"},"items":[` + strings.Join(items, ",") + `]}`)
}

func read(t *testing.T, cfg Config) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(cfg.Dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n%s", filepath.Base(name), text)
	}
	return all.String()
}

func TestOnce(t *testing.T) {
	c := newCluster(t)
	cfg, log := c.config(t)
	other := filepath.Join(cfg.Dir, "kubernetes-former.yaml")
	for name, first := range map[string]string{other: mark, filepath.Join(cfg.Dir, "kubernetes-own.yaml"): ""} {
		if err := os.WriteFile(name, []byte(first+"upstreams: []\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.answers <- list(one("crm", "crm", ""),
		one("crm", "mail", `,"annotations":{"gatehouse.dev/port":"8443","gatehouse.dev/path":"/v1/mcp"}`),
		one("a-b", "c", `,"creationTimestamp":"2026-01-02T00:00:00Z"`),
		one("a", "b-c", `,"creationTimestamp":"2026-01-01T00:00:00Z"`),
		one("bad", "port", `,"annotations":{"gatehouse.dev/port":"9"}`),
		one("bad", "path", `,"annotations":{"gatehouse.dev/path":"/x\n- name: evil"}`),
		one("2024-crm", "x", ""), one("customer-support-eu", "zendesk", ""), one("gate", "gatehouse", ""),
		one("gatehouse", "gatehouse", ""), one("a", "b-d", ""), one("a-b", "x", ""),
		one("bad", "up", `,"annotations":{"gatehouse.dev/path":"/../admin"}`),
		one("../etc", "x", ""))
	if err := Once(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r := <-c.requests
	if r.URL.Path != "/api/v1/services" || r.URL.Query().Get("labelSelector") != cfg.Selector ||
		r.Header.Get("Authorization") != "Bearer pod-token" {
		t.Errorf("asked %s with %q", r.URL, r.Header.Get("Authorization"))
	}
	const want = `kubernetes-a-b.yaml
# Written by gatehouse discover.
upstreams:
    - name: a-b-c
      url: http://c.a-b.svc.cluster.local:8000/mcp
      allow_plaintext: true
    - name: a-b-x
      url: http://x.a-b.svc.cluster.local:8000/mcp
      allow_plaintext: true
kubernetes-crm.yaml
# Written by gatehouse discover.
upstreams:
    - name: crm
      url: http://crm.crm.svc.cluster.local:8000/mcp
      allow_plaintext: true
    - name: crm-mail
      url: https://mail.crm.svc.cluster.local:8443/v1/mcp
kubernetes-gate.yaml
# Written by gatehouse discover.
upstreams:
    - name: gate-gatehouse
      url: http://gatehouse.gate.svc.cluster.local:8000/mcp
      allow_plaintext: true
kubernetes-own.yaml
upstreams: []
`
	if got := read(t, cfg); got != want {
		t.Errorf("written:\n%s\nwant\n%s", got, want)
	}
	for _, left := range []string{"a/b-c", "a/b-d", "a-b-d reads as one of the namespace a-b", "2024-crm/x",
		"customer-support-eu/zendesk",
		"gatehouse/gatehouse", "bad/port", "bad/path", "bad/up",
		"../etc/x"} {
		if !strings.Contains(log.String(), left) {
			t.Errorf("the log has no %q:\n%s", left, log)
		}
	}
}

// TestWatch: Services that appear, change and go are written at once; a watch that ends goes on from its version,
// and begins with a list where that is too old.
func TestWatch(t *testing.T) {
	c := newCluster(t)
	cfg, _ := c.config(t)
	cfg.Namespace = "crm"
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Watch(ctx, cfg) }()
	// asked returns the version from which a watch goes on, "" for a list.
	asked := func() string {
		t.Helper()
		r := <-c.requests
		if r.URL.Path != "/api/v1/namespaces/crm/services" {
			t.Errorf("asked %s", r.URL)
		}
		return r.URL.Query().Get("resourceVersion")
	}
	next := make(chan string)
	watch := func(w http.ResponseWriter) {
		for event := range next {
			io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
		}
	}
	event := func(kind, object string) {
		next <- fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
	}
	c.answers <- list(one("crm", "crm", ""))
	if v := asked(); v != "" {
		t.Errorf("began with a watch from %s", v)
	}
	c.answers <- watch
	if v := asked(); v != "5" {
		t.Errorf("watches from %q, want 5", v)
	}
	// The next request comes when all events have been taken up.
	event("ADDED", one("crm", "mail", ""))
	event("MODIFIED", one("crm", "crm", `,"annotations":{"gatehouse.dev/path":"/two"}`))
	event("DELETED", one("crm", "mail", ""))
	event("BOOKMARK", `{"metadata":{"resourceVersion":"9"}}`)
	close(next)
	c.answers <- status(http.StatusGone)
	if v := asked(); v != "9" {
		t.Errorf("goes on from %q, want 9", v)
	}
	if got := read(t, cfg); strings.Contains(got, "mail") || !strings.Contains(got, "/two") {
		t.Errorf("written:\n%s", got)
	}
	c.answers <- list()
	if v := asked(); v != "" {
		t.Errorf("after 410: watches from %q, want a list", v)
	}
	c.answers <- text(`{"type":"ERROR","object":{"code":410}}`)
	if v := asked(); v != "5" {
		t.Errorf("watches from %q", v)
	}
	if got := read(t, cfg); got != "" {
		t.Errorf("without Services:\n%s", got)
	}
	c.answers <- list(one("crm", "crm", ""))
	if v := asked(); v != "" {
		t.Errorf("after an error in the stream: watches from %q, want a list", v)
	}
	asked() // the watch, which gets no answer
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestUnreachable: what is written stays while the API refuses or sends what is no list.
func TestUnreachable(t *testing.T) {
	c := newCluster(t)
	cfg, _ := c.config(t)
	c.answers <- list(one("crm", "crm", ""))
	if err := Once(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	before := read(t, cfg)
	for name, answer := range map[string]func(http.ResponseWriter){
		"may not": status(http.StatusForbidden), "HTTP 500": status(500), "the list of Services": text(`{"items":[{]}`),
		"unexpected EOF": text(`{"metadata":{},"items":[`),
	} {
		c.answers <- answer
		if err := Once(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg.Bearer = func() (string, error) { return "", errors.New("no file") }
	if err := Once(t.Context(), cfg); err == nil {
		t.Error("asked without a token")
	}
	if got := read(t, cfg); got != before {
		t.Errorf("became\n%s", got)
	}
}

func TestWatchTriesAgain(t *testing.T) {
	c := newCluster(t)
	cfg, log := c.config(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- Watch(ctx, cfg) }()
	c.answers <- status(http.StatusForbidden)
	<-c.requests
	c.answers <- list(one("crm", "crm", ""))
	<-c.requests
	<-c.requests // the watch
	if !strings.Contains(log.String(), "may not list and watch Services") {
		t.Errorf("the log does not say why: %s", log)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func FuzzService(f *testing.F) {
	f.Add("crm", "mail", "/mcp", "mcp")
	f.Fuzz(func(t *testing.T, namespace, name, path, at string) {
		var s service
		s.Metadata.Name, s.Metadata.Namespace = name, namespace
		s.Metadata.Annotations = map[string]string{annotationPath: path, annotationPort: at}
		s.Spec.Ports = []port{{Name: "mcp", Port: 1}, {Port: 2}}
		up, err := s.server("cluster.local")
		if err == nil && (strings.ContainsAny(up.URL+up.Name, "\n\"@?# ") || strings.Contains(up.URL, "..")) {
			t.Errorf("%+v", up)
		}
	})
}
