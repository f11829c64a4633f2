package clientele

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const claude = "https://claude.ai/oauth/meta"

// web answers requests for documents.
type web struct {
	mu    sync.Mutex // guards the fields below
	pages map[string]page
	asked []string
	hold  chan struct{} // if not nil, answers wait until it is closed
}

type page struct {
	status int    // 0 for 200
	body   string // "" for the document of a client with this id
	header http.Header
	err    error
}

func (w *web) set(url string, p page) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pages == nil {
		w.pages = make(map[string]page)
	}
	w.pages[url] = p
}

// count returns how often something with this text in its URL was asked for.
func (w *web) count(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, url := range w.asked {
		if strings.Contains(url, text) {
			n++
		}
	}
	return n
}

func documentOf(id string) string {
	return fmt.Sprintf(`{"client_id":%q,"client_name":"Claude","redirect_uris":["https://claude.ai/cb","http://localhost/cb"],"token_endpoint_auth_method":"none"}`, id)
}

// Do answers a request.
func (w *web) Do(r *http.Request) (*safehttp.Response, error) {
	url := r.URL.String()
	w.mu.Lock()
	w.asked = append(w.asked, url)
	p, known := w.pages[url]
	w.mu.Unlock()
	if w.hold != nil {
		<-w.hold
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case !known:
		p.status = http.StatusNotFound
	case p.body == "":
		p.body = documentOf(url)
	}
	if p.status == 0 {
		p.status = http.StatusOK
	}
	if p.header == nil {
		p.header = http.Header{}
	}
	if p.header.Get("Content-Type") == "" {
		p.header.Set("Content-Type", "application/json; charset=utf-8")
	}
	return &safehttp.Response{Status: p.status, Header: p.header, Body: []byte(p.body)}, nil
}

func allowing(hosts ...string) Config {
	return Config{Registration: Registration{CIMD: CIMD{Allow: hosts}}}
}

func TestDocument(t *testing.T) {
	w := &web{}
	w.set(claude, page{})
	r := newRegistry(t, allowing("claude.ai"), w)
	c, err := r.Find(t.Context(), claude)
	if err != nil || c.ID != claude || c.Kind != KindDocument || c.Name != "Claude" || !c.Public() ||
		!c.Allows("https://claude.ai/cb") || !c.Allows("http://localhost:1/cb") {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := r.Find(t.Context(), claude); err != nil || w.count(claude) != 1 {
		t.Errorf("it was fetched %d times: %v", w.count(claude), err)
	}
	if !r.Documents() {
		t.Error("the metadata do not say so")
	}
}

// TestDocumentRefused: a document counts only if it says of itself what it is, and nothing secret.
func TestDocumentRefused(t *testing.T) {
	with := func(old, new string) page { return page{body: strings.Replace(documentOf(claude), old, new, 1)} }
	for name, p := range map[string]page{
		"no JSON":                  {body: "<html>"},
		"a list":                   {body: "[]"},
		"null":                     {body: "null"},
		"another client_id":        with(claude, claude+"2"),
		"client_id in capitals":    with(`"client_id"`, `"Client_ID"`),
		"client_id is a list":      with(`"`+claude+`"`, `["`+claude+`"]`),
		"no client_id":             with(`"client_id"`, `"x"`),
		"a secret":                 with(`{`, `{"client_secret":"s",`),
		"an expiry of a secret":    with(`{`, `{"client_secret_expires_at":0,`),
		"authentication by secret": with(`"none"`, `"client_secret_basic"`),
		"unknown authentication":   with(`"none"`, `"tls_client_auth"`),
		"no redirects":             with(`redirect_uris`, `x`),
		"redirects are a text":     with(`["https://claude.ai/cb","http://localhost/cb"]`, `"https://claude.ai/cb"`),
		"empty redirects":          with(`["https://claude.ai/cb","http://localhost/cb"]`, `[]`),
		"a bad redirect":           with(`http://localhost/cb`, `http://localhost.evil.example/cb`),
		"a script":                 with(`http://localhost/cb`, `javascript:/x`),
		"many redirects": with(`["https:`, `["https://a.example"`+
			strings.Repeat(`,"https://a.example"`, maxRedirects)+`,"https:`),
		"another flow":           with(`{`, `{"grant_types":["implicit"],`),
		"another response":       with(`{`, `{"response_types":["token"],`),
		"a name that is no text": with(`"Claude"`, `{}`),
		"too long":               {body: documentOf(claude) + strings.Repeat(" ", maxDocument)},
		"a page":                 {header: http.Header{"Content-Type": {"text/html"}}},
		"no content type":        {header: http.Header{"Content-Type": {"?"}}},
		"not found":              {status: 404, body: documentOf(claude)},
		"created":                {status: 201},
		"forbidden":              {status: 403, body: documentOf(claude)},
		"a redirect":             {err: safehttp.ErrRedirect},
		"too large":              {err: safehttp.ErrTooLarge},
		"an address within":      {err: safehttp.ErrForbidden},
		"no answer":              {err: context.DeadlineExceeded},
	} {
		w := &web{}
		w.set(claude, p)
		if text := refusal(t, newRegistry(t, allowing("claude.ai"), w), claude); text == "" || w.count(claude) != 1 {
			t.Errorf("%s: %q, asked %d times", name, text, w.count(claude))
		}
	}
}

// TestDocumentHosts: only documents of hosts that are allowed are asked for.
func TestDocumentHosts(t *testing.T) {
	cfg := allowing("claude.ai", "*.example.com")
	cfg.Registration.CIMD.Deny = []string{"bad.example.com", "*.bad.example.com"}
	w := &web{}
	r := newRegistry(t, cfg, w)
	for id, ok := range map[string]bool{
		"https://claude.ai/x":                                      true,
		"https://claude.ai:8443/x":                                 true,
		"https://a.example.com/x":                                  true,
		"https://a.b.example.com/x?y":                              true,
		"https://example.com/x":                                    false,
		"https://bad.example.com/x":                                false,
		"https://a.bad.example.com/x":                              false,
		"https://evilexample.com/x":                                false,
		"https://x.claude.ai/x":                                    false,
		"https://claude.ai.evil.example/x":                         false,
		"https://claude.ai":                                        false,
		"https://claude.ai/":                                       false,
		"https://claude.ai/?x":                                     false,
		"https://claude.ai@evil.example/x":                         false,
		"https://user@claude.ai/x":                                 false,
		"https://claude.ai/x#y":                                    false,
		"https://claude.ai/./x":                                    false,
		"https://claude.ai/x/../y":                                 false,
		"https://claude.ai/%78":                                    false,
		"https://Claude.ai/x":                                      false,
		"https://claude.ai./x":                                     false,
		"https://127.0.0.1/x":                                      false,
		"https://[::1]/x":                                          false,
		"http://claude.ai/x":                                       false,
		"https:claude.ai/x":                                        false,
		`https:\\claude.ai\x`:                                      false,
		"https://claude.ai/" + strings.Repeat("x", maxDocumentURL): false,
	} {
		w.set(id, page{})
		before := len(w.asked)
		if got := refusal(t, r, id) == ""; got != ok || (len(w.asked) > before) != ok {
			t.Errorf("%.60s: %t, %d requests", id, got, len(w.asked)-before)
		}
	}
}

// TestDocumentSSRF: the URL of a client leads to no address that is not public, whatever its name is.
func TestDocumentSSRF(t *testing.T) {
	var hits atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, documentOf("https://"+r.Host+r.URL.Path))
	}))
	t.Cleanup(s.Close)
	id := strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + "/client.json"
	if text := refusal(t, newRegistry(t, allowing("*"), nil), id); !strings.Contains(text, "not public") ||
		hits.Load() != 0 {
		t.Errorf("%q, %d requests", text, hits.Load())
	}
}

// TestDocumentJoined: many who ask at the same time cause one request.
func TestDocumentJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &web{hold: make(chan struct{})}
		w.set(claude, page{})
		r := newRegistry(t, allowing("claude.ai"), w)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := r.Find(t.Context(), claude); err != nil {
					t.Error(err)
				}
			})
		}
		left, leave := context.WithCancel(t.Context())
		wg.Go(func() { _, _ = r.Find(left, claude) })
		synctest.Wait()
		leave() // does not take the answer from the others
		close(w.hold)
		wg.Wait()
		if w.count(claude) != 1 {
			t.Errorf("%d requests", w.count(claude))
		}
	})
}

// TestDocumentFresh: a document is asked for again when its time is over, and stays in use while its
// host is out of order, but not when it has become another one.
func TestDocumentFresh(t *testing.T) {
	for header, fresh := range map[string]time.Duration{
		"":                            usualFresh,
		"max-age=600":                 10 * time.Minute,
		"public, MAX-AGE=\"7200\"":    2 * time.Hour,
		"max-age=1":                   leastFresh,
		"max-age=99999999":            mostFresh,
		"max-age=99999999999999":      usualFresh,
		"max-age=600, no-store":       leastFresh,
		"no-cache":                    leastFresh,
		"max-age=-5":                  usualFresh,
		"private, must-revalidate, x": usualFresh,
	} {
		if got := freshness(http.Header{"Cache-Control": {header}}); got != fresh {
			t.Errorf("%q: %s, want %s", header, got, fresh)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := &web{}
		w.set(claude, page{})
		r := newRegistry(t, allowing("claude.ai"), w)
		find := func(requests int, ok bool) {
			t.Helper()
			if got := refusal(t, r, claude) == ""; got != ok || w.count(claude) != requests {
				t.Errorf("%t after %d requests, want %t after %d", got, w.count(claude), ok, requests)
			}
		}
		find(1, true)
		time.Sleep(usualFresh)
		find(2, true)
		w.set(claude, page{err: context.DeadlineExceeded})
		time.Sleep(usualFresh)
		find(3, true)
		find(3, true) // for a while
		time.Sleep(failureHolds)
		find(4, true)
		time.Sleep(mostStale)
		find(5, false)
		find(5, false)
		w.set(claude, page{})
		time.Sleep(failureHolds)
		find(6, true)
		w.set(claude, page{body: documentOf(claude + "2")})
		time.Sleep(usualFresh)
		find(7, false)
		find(7, false) // for a while
		w.set(claude, page{})
		time.Sleep(failureHolds)
		find(8, true)
	})
}

// refusalOf is the reason why a client is refused to somebody at an address, "" if it is not.
func refusalOf(t *testing.T, r *Registry, address, id string) string {
	t.Helper()
	_, err := r.Find(mcp.WithOrigin(t.Context(), mcp.Origin{Address: address}), id)
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestDocumentFloods: a stranger who asks for made-up clients of a host keeps out no client that
// somebody elsewhere asks for, whatever the host answers to the stranger.
func TestDocumentFloods(t *testing.T) {
	for name, answer := range map[string]page{
		"not found": {status: 404}, "busy": {status: 429}, "out of order": {status: 503},
		"silence": {err: context.DeadlineExceeded}, "good": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &web{}
				r := newRegistry(t, allowing("claude.ai"), w)
				for i := range 600 {
					stranger := fmt.Sprintf("https://claude.ai/made-up%d", i)
					w.set(stranger, answer)
					refusalOf(t, r, fmt.Sprintf("2001:db8::%x", i+1), stranger)
					if i%10 == 0 {
						neighbour := fmt.Sprintf("https://claude.ai/client%d", i)
						w.set(neighbour, page{})
						if text := refusalOf(t, r, "192.0.2.1", neighbour); text != "" {
							t.Fatalf("after %d s: %s", i, text)
						}
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := &web{}
		w.set(claude, page{})
		r := newRegistry(t, allowing("*"), w)
		refusal(t, r, claude)
		for i := range 500 {
			refusalOf(t, r, "198.51.100.1", fmt.Sprintf("https://claude.ai/x%d", i))
		}
		if n := w.count("claude.ai/x"); n != fetchesOfOne {
			t.Errorf("one address causes %d requests", n)
		}
		for i := range 2 * fetchesInAll {
			refusalOf(t, r, fmt.Sprintf("198.51.%d.%d", i/200, i%200), fmt.Sprintf("https://h%d.example/x", i))
		}
		if n := w.count("example/x"); n > fetchesInAll {
			t.Errorf("all together cause %d requests", n)
		}
		w.set(claude, page{err: context.DeadlineExceeded})
		for _, later := range []time.Duration{0, usualFresh} { // what is known needs no request, or none that succeeds
			time.Sleep(later)
			if text := refusalOf(t, r, "198.51.100.1", claude); text != "" {
				t.Error(text)
			}
		}
		if n := r.documents.failed.Len(); n > maxFailures {
			t.Errorf("%d failures are kept", n)
		}
	})
}

// TestDocumentShares: of what one address asks for a share is kept, so that others keep theirs.
func TestDocumentShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &web{}
		w.set(claude, page{header: http.Header{"Cache-Control": {"max-age=86400"}}})
		r := newRegistry(t, allowing("*"), w)
		if text := refusalOf(t, r, "192.0.2.1", claude); text != "" {
			t.Fatal(text)
		}
		for i := range 2 * MaxDocuments {
			id := fmt.Sprintf("https://h%d.example/x", i)
			w.set(id, page{header: http.Header{"Cache-Control": {"max-age=86400"}}})
			if text := refusalOf(t, r, "198.51.100.1", id); text != "" {
				t.Fatal(text)
			}
			time.Sleep(time.Second)
		}
		if text := refusalOf(t, r, "192.0.2.1", claude); text != "" || w.count(claude) != 1 {
			t.Errorf("%q after %d requests", text, w.count(claude))
		}
	})
}

// TestDocumentOutlives: a document that was good is good for a registry that comes later, and for the
// one of another replica, also while its host is out of order.
func TestDocumentOutlives(t *testing.T) {
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(redistest.Start(t).URL())}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key, err := seal.NewKey([]byte("0123456789abcdef0123456789abcdef"), "documents")
	if err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]*redisdb.DB{"memory": nil, "redis": db} {
		store := expiring.New(expiring.Base{Redis: db}, key, "d", 10)
		good, down := &web{}, &web{}
		good.set(claude, page{})
		down.set(claude, page{status: 503})
		cfg := allowing("claude.ai")
		for _, web := range []*web{good, down} {
			r, err := New(cfg, Deps{Issuer: issuer, Key: key, Fetch: web, Documents: store})
			if err != nil {
				t.Fatal(err)
			}
			c, err := r.Find(t.Context(), claude)
			if err != nil || c.Name != "Claude" || !c.Allows("https://claude.ai/cb") || c.Kind != KindDocument {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
		}
		if down.count(claude) != 0 {
			t.Errorf("%s: it is asked for again", name)
		}
	}
}

// FuzzDocument: whatever a document says, its client has redirect URIs that are fit.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(documentOf(claude)))
	f.Add([]byte(`{"client_id":"` + claude + `","redirect_uris":["cursor:/x"],"client_uri":"https://a@b"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := parseDocument(claude, body)
		if err != nil {
			return
		}
		if c.ID != claude || len(c.Redirects) == 0 || len(c.Redirects) > maxRedirects || !c.Public() || c.Name == "" ||
			c.Name != cleanName(c.Name) {
			t.Fatalf("%+v", c)
		}
		for _, uri := range c.Redirects {
			if !c.Allows(uri) {
				t.Fatalf("%q is not allowed", uri)
			}
		}
	})
}
