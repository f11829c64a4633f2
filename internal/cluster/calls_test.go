package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// post makes a client's request for the home u1:x.
func post(body string) *http.Request {
	r := httptest.NewRequest("POST", "/u1/x", nil)
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(body))
	return r
}

// TestWays: small requests take HTTP/1.1 and leave their connection for the next one. Large
// and long-lived requests take HTTP/2. A client's connection headers are not forwarded.
func TestWays(t *testing.T) {
	serve := func(w http.ResponseWriter, r *http.Request, _ Owner) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %v %s", r.Proto, len(body), err,
			r.Header.Get("Upgrade")+r.Header.Get("Te")+r.Header.Get("Expect"))
	}
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, serve), startHouse(t, redis, serve)
	a.own(t, Home{User: "u1", ID: "x"})
	for _, tt := range []struct {
		name, method string
		size         int
		want         string
	}{
		{"small", "POST", 100, "HTTP/1.1 100 <nil> "},
		{"no body", "POST", 0, "HTTP/1.1 0 <nil> "},
		{"the largest", "POST", http1.MaxRequest, fmt.Sprintf("HTTP/1.1 %d <nil> ", http1.MaxRequest)},
		{"larger", "POST", http1.MaxRequest + 1, fmt.Sprintf("HTTP/2.0 %d <nil> ", http1.MaxRequest+1)},
		{"a stream", "GET", 0, "HTTP/2.0 0 <nil> "},
		{"an end", "DELETE", 0, "HTTP/2.0 0 <nil> "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 3 {
				resp := b.do(t, tt.method, "/u1/x", strings.NewReader(strings.Repeat("b", tt.size)),
					"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQAAP__", "Te", "trailers")
				if text, err := io.ReadAll(resp.Body); err != nil || string(text) != tt.want {
					t.Errorf("%s %q, %v, want %q", resp.Status, text, err, tt.want)
				}
			}
		})
	}
	p := b.members.peer(a.Self())
	if n := p.conns.Load(); n != 2 {
		t.Errorf("%d connections, want one for each protocol", n)
	}
	a.Leaving(t.Context())
	eventually(t, "it is known that the owner stops", p.leaving.Load)
	resp := b.do(t, "POST", "/u1/x", strings.NewReader("{}"))
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "HTTP/2.0 2 <nil> " {
		t.Errorf("at an owner that stops: %q, %v", text, err)
	}
}

// TestManyCalls: small requests beyond the limit of own connections share one.
func TestManyCalls(t *testing.T) {
	const more = 20
	began, end := make(chan string), make(chan struct{})
	serve := func(w http.ResponseWriter, r *http.Request, _ Owner) {
		began <- r.Proto
		<-end
	}
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, serve), startHouse(t, redis, serve)
	a.own(t, some("x"))
	o := b.own(t, some("x"))
	var all sync.WaitGroup
	seen := make(map[string]int)
	for range maxCalls + more {
		all.Go(func() {
			if err := b.Forward(httptest.NewRecorder(), post("{}"), o.Replica, "u1:x", nil); err != nil {
				t.Error(err)
				began <- ""
			}
		})
		seen[<-began]++
	}
	close(end)
	all.Wait()
	if seen["HTTP/1.1"] != maxCalls || seen["HTTP/2.0"] != more {
		t.Errorf("%v", seen)
	}
	for range maxCalls + more { // at once: those without a connection share one
		all.Go(func() {
			if err := b.Forward(httptest.NewRecorder(), post("{}"), o.Replica, "u1:x", nil); err != nil {
				t.Error(err)
				began <- ""
			}
		})
	}
	for range maxCalls + more {
		<-began
	}
	all.Wait()
	if n := len(b.members.peer(a.Self()).free); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

// TestCallsEnd: a call ends with its client, with the connection to its owner, and with the
// owner.
func TestCallsEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(b *house, p *peer, leave func())
		want error
	}{
		{"the client goes", func(_ *house, _ *peer, leave func()) { leave() }, context.Canceled},
		{"the owner is not reached any more", func(b *house, p *peer, _ func()) { b.members.reached(p, ErrUnreachable) },
			ErrLost},
		{"the lease of the owner ends", func(_ *house, p *peer, _ func()) { p.gone() }, ErrLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began, ended := make(chan struct{}, 1), make(chan struct{}, 1)
			serve := func(_ http.ResponseWriter, r *http.Request, _ Owner) {
				_, _ = io.Copy(io.Discard, r.Body) // until then HTTP/1.1 does not notice that the client leaves
				began <- struct{}{}
				<-r.Context().Done()
				ended <- struct{}{}
			}
			redis := redistest.Start(t)
			a, b := startHouse(t, redis, serve), startHouse(t, redis, serve)
			a.own(t, some("x"))
			o := b.own(t, some("x"))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			result := make(chan error, 1)
			go func() {
				result <- b.Forward(httptest.NewRecorder(), post("{}").WithContext(ctx), o.Replica, "u1:x", nil)
			}()
			<-began
			tt.end(b, b.members.peer(a.Self()), leave)
			if err := <-result; !errors.Is(err, tt.want) {
				t.Errorf("Forward: %v, want %v", err, tt.want)
			}
			<-ended
		})
	}
}

// TestIdleCallsOfAGoneOwner: an idle connection that has closed loses no request. A request
// that a gone owner had begun is lost.
func TestIdleCallsOfAGoneOwner(t *testing.T) {
	began := make(chan struct{}, 1)
	serve := func(_ http.ResponseWriter, r *http.Request, _ Owner) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Wait") != "" {
			began <- struct{}{}
			<-r.Context().Done()
		}
	}
	redis := redistest.Start(t)
	long := func(_ *Config, _ *Deps, t *times) { t.lease *= 100 }
	a, b := startHouse(t, redis, serve, long), startHouse(t, redis, serve, long)
	a.own(t, some("x"))
	o := b.own(t, some("x"))
	if err := b.Forward(httptest.NewRecorder(), post("{}"), o.Replica, "u1:x", nil); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	waits := post("{}")
	waits.Header.Set("Wait", "1")
	go func() { result <- b.Forward(httptest.NewRecorder(), waits, o.Replica, "u1:x", nil) }()
	<-began
	// leaves a second connection idle
	if err := b.Forward(httptest.NewRecorder(), post("{}"), o.Replica, "u1:x", nil); err != nil {
		t.Fatal(err)
	}
	a.crash()
	if err := <-result; !errors.Is(err, ErrLost) {
		t.Errorf("what ran: %v", err)
	}
	if err := b.Forward(httptest.NewRecorder(), post("{}"), o.Replica, "u1:x", nil); !errors.Is(err, ErrGone) {
		t.Errorf("what comes after: %v", err)
	}
}

// TestNotAdmitted: an owner that does not know this replica any more, and cannot look it up, does
// nothing of a request on a new connection. The client is not told that it may have run.
func TestNotAdmitted(t *testing.T) {
	redis := redistest.Start(t)
	served := make(chan struct{}, 1)
	serve := func(http.ResponseWriter, *http.Request, Owner) { served <- struct{}{} }
	brief := func(_ *Config, _ *Deps, t *times) { t.patience = t.look }
	a, b := startHouse(t, redis, serve, patient, brief), startHouse(t, redis, serve, patient, brief)
	a.own(t, some("x"))
	o := b.own(t, some("x"))
	b.get(t, "/u1/x") // on the shared connection, which stays
	<-served
	redis.Kill()
	a.members.mu.Lock()
	delete(a.members.peers, b.Self())
	a.members.mu.Unlock()
	if err := b.Forward(httptest.NewRecorder(), post("{}"), o.Replica, "u1:x", nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Forward: %v", err)
	}
	if len(served) > 0 {
		t.Error("the request was served")
	}
}
