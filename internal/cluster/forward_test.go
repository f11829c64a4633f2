package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestForward: a request that another replica forwards gets the owner's answer.
func TestForward(t *testing.T) {
	type seen struct {
		request *http.Request
		body    string
		caller  string
	}
	got := make(chan seen, 1)
	serve := func(w http.ResponseWriter, r *http.Request, _ Owner) {
		body, _ := io.ReadAll(r.Body)
		caller, _, _ := Forwarded(r)
		got <- seen{r, string(body), string(caller)}
		w.Header().Set("Mcp-Session-Id", "id")
		w.Header().Set("Keep-Alive", "timeout=1")
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "answer")
		_ = http.NewResponseController(w).Flush() // an answer of known length has no trailers in HTTP/1.1
		w.Header().Set("X-Sum", "6")
	}
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, serve), startHouse(t, redis, serve)
	a.own(t, Home{User: "u1", ID: "x"})
	body := strings.Repeat("b", 3<<20)
	resp := b.do(t, "POST", "/u1/x/y?q=a%20b", strings.NewReader(body), "Authorization", "Bearer secret", "Cookie", "a=b",
		"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Port", "1", "Gatehouse-Forward", "mine", "Mcp-Session-Id", "x",
		"Connection", "X-Hop", "X-Hop", "1")
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusAccepted || string(text) != "answer" ||
		resp.Header.Get("Mcp-Session-Id") != "id" {
		t.Errorf("%s %q %v %v", resp.Status, text, resp.Header, err)
	}
	if len(resp.Trailer) > 0 || resp.Header.Get("X-Hop") != "" || resp.Header.Get("Keep-Alive") != "" {
		t.Errorf("headers %v, trailers %v", resp.Header, resp.Trailer)
	}
	s := <-got
	if s.body != body || s.caller != "somebody" || s.request.URL.RequestURI() != "/u1/x/y?q=a%20b" ||
		s.request.Method != "POST" {
		t.Errorf("%s %s, %d bytes, caller %q", s.request.Method, s.request.URL, len(s.body), s.caller)
	}
	if "http://"+s.request.Host != b.public.URL || s.request.Header.Get("Mcp-Session-Id") != "x" {
		t.Errorf("host %s, headers %v", s.request.Host, s.request.Header)
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For", "X-Forwarded-Port",
		"Gatehouse-Forward", "X-Hop"} {
		if s.request.Header.Get(name) != "" {
			t.Errorf("%s came to the owner", name)
		}
	}
	if n := counted(t, b.members.count.forwards[outcomeAnswered]); n != 1 {
		t.Errorf("%v forwards are counted", n)
	}
}

// TestForwardedFromOutside: carriedHeader has no effect outside the link.
func TestForwardedFromOutside(t *testing.T) {
	redis := redistest.Start(t)
	a := startHouse(t, redis, func(w http.ResponseWriter, r *http.Request, _ Owner) {
		_, _, ok := Forwarded(r)
		fmt.Fprint(w, ok)
	})
	resp := a.do(t, "GET", "/u1/x", nil, carriedHeader,
		a.link.carried.write(a.Self(), httptest.NewRequest("GET", "/u1/x", nil), "u1:x", nil))
	if text, _ := io.ReadAll(resp.Body); string(text) != "false" {
		t.Errorf("%s", text)
	}
}

// TestStreams: each event arrives at once, on a thousand streams over one connection. The
// owner notices when a client leaves.
func TestStreams(t *testing.T) {
	const streams = 1000
	next, ended := make(chan struct{}), make(chan struct{}, streams)
	redis := redistest.Start(t)
	serve := func(w http.ResponseWriter, r *http.Request, _ Owner) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-next:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "data: 2\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		ended <- struct{}{}
	}
	patient := func(_ *Config, _ *Deps, t *times) {
		// a thousand clients are a load
		t.dial, t.look, t.greet, t.idle, t.ping = time.Minute, time.Minute, time.Minute, time.Minute, time.Minute
	}
	a, b := startHouse(t, redis, serve, patient), startHouse(t, redis, serve, patient)
	a.own(t, some("x"))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	began, whole, opening := make(chan error, streams), make(chan error, streams), make(chan struct{}, 16)
	for range streams {
		opening <- struct{}{}
		go func() { // ends with the two messages
			lines, err := b.events(ctx, "/u1/x", "data: 1")
			began <- err
			<-opening
			if err == nil {
				err = lines("data: 2")
			}
			whole <- err
		}()
	}
	for range streams {
		if err := <-began; err != nil {
			t.Fatal(err)
		}
	}
	close(next)
	for range streams {
		if err := <-whole; err != nil {
			t.Fatal(err)
		}
	}
	leave()
	for range streams {
		<-ended
	}
}

// events opens an event stream, which ends with ctx, and expects its first line. Each call of
// lines expects the next line that is not empty.
func (h *house) events(ctx context.Context, path, first string) (lines func(want string) error, err error) {
	req, err := http.NewRequestWithContext(ctx, "GET", h.public.URL+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := h.public.Client().Do(req)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { resp.Body.Close() })
	scanner := bufio.NewScanner(resp.Body)
	lines = func(want string) error {
		for scanner.Scan() && scanner.Text() == "" {
		}
		if scanner.Text() != want {
			return fmt.Errorf("%q, %v, want %q", scanner.Text(), scanner.Err(), want)
		}
		return nil
	}
	return lines, lines(first)
}

// TestForwardCancelled: a client that leaves before the answer begins ends the call.
func TestForwardCancelled(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	redis := redistest.Start(t)
	serve := func(_ http.ResponseWriter, r *http.Request, _ Owner) {
		close(began)
		<-r.Context().Done()
		close(ended)
	}
	a, b := startHouse(t, redis, serve), startHouse(t, redis, serve)
	a.own(t, some("x"))
	o := b.own(t, some("x"))
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		result <- b.Forward(httptest.NewRecorder(), httptest.NewRequest("GET", "/u1/x", nil).WithContext(ctx),
			o.Replica, "u1:x", nil)
	}()
	<-began
	cancel()
	<-ended
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Forward: %v", err)
	}
}

// TestMoved: an owner that has given up a home says so, and the next replica that asks gets
// it.
func TestMoved(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, sayWho), startHouse(t, redis, sayWho)
	if who := a.get(t, "/u1/x"); who != a.Self() {
		t.Errorf("%s answers", who)
	}
	if who := b.get(t, "/u1/x"); who != a.Self() {
		t.Errorf("%s answers", who)
	}
	o := b.own(t, some("x"))
	if err := a.door.give(t.Context(), "u1:x"); err != nil {
		t.Fatal(err)
	}
	c := startHouse(t, redis, sayWho)
	c.own(t, some("x"))
	if err := b.Forward(httptest.NewRecorder(), httptest.NewRequest("GET", "/u1/x", nil), o.Replica, "u1:x",
		nil); !errors.Is(err, ErrMoved) {
		t.Errorf("Forward to one that does not have it: %v", err)
	}
	if who := b.get(t, "/u1/x"); who != c.Self() {
		t.Errorf("%s answers", who)
	}
}

// TestGone: if nobody listens at the owner's address, the home is taken over at once.
func TestGone(t *testing.T) {
	redis := redistest.Start(t)
	long := func(_ *Config, _ *Deps, t *times) { t.lease *= 100 }
	a, b := startHouse(t, redis, sayWho, long), startHouse(t, redis, sayWho, long)
	a.own(t, some("x"))
	o := b.own(t, some("x"))
	a.crash()
	if err := b.Forward(httptest.NewRecorder(), httptest.NewRequest("GET", "/u1/x", nil), o.Replica, "u1:x",
		nil); !errors.Is(err, ErrGone) {
		t.Fatalf("Forward: %v", err)
	}
	if o := b.own(t, some("x")); !o.Here() || o.Former != a.Self() {
		t.Errorf("Own: %+v", o)
	}
	if peers := b.Peers(); len(peers) != 0 {
		t.Errorf("it is among the peers: %+v", peers)
	}
	if missed := b.Missing(); len(missed) != 1 || missed[0].Name != a.Self() {
		t.Errorf("missed: %+v", missed)
	}
	startHouse(t, redis, sayWho, long)
	b.members.look(t.Context(), b.members.now())
	if missed := b.Missing(); len(missed) != 0 {
		t.Errorf("missed after another one has come: %+v", missed)
	}
}

// TestLost: if the owner goes after a request was sent, it is unknown whether the request was
// done.
func TestLost(t *testing.T) {
	began := make(chan struct{})
	redis := redistest.Start(t)
	serve := func(_ http.ResponseWriter, r *http.Request, _ Owner) {
		began <- struct{}{}
		<-r.Context().Done()
	}
	a, b := startHouse(t, redis, serve), startHouse(t, redis, serve)
	a.own(t, some("x"))
	o := b.own(t, some("x"))
	result := make(chan error, 1)
	send := func() {
		result <- b.Forward(httptest.NewRecorder(), httptest.NewRequest("GET", "/u1/x", nil), o.Replica, "u1:x", nil)
	}
	go send()
	<-began
	b.members.mu.Lock()
	p := b.members.peers[a.Self()]
	b.members.mu.Unlock()
	p.gone() // as at the end of its lease
	if err := <-result; !errors.Is(err, ErrLost) {
		t.Errorf("the lease has ended: %v", err)
	}

	c := startHouse(t, redis, serve)
	o = c.own(t, some("x"))
	go func() {
		result <- c.Forward(httptest.NewRecorder(), httptest.NewRequest("GET", "/u1/x", nil), o.Replica, "u1:x", nil)
	}()
	<-began
	a.crash()
	if err := <-result; !errors.Is(err, ErrLost) {
		t.Errorf("the connection broke: %v", err)
	}
}

// TestBrokenOff: an answer that breaks off does not look complete to the client.
func TestBrokenOff(t *testing.T) {
	redis := redistest.Start(t)
	serve := func(w http.ResponseWriter, r *http.Request, _ Owner) {
		fmt.Fprint(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	a, b := startHouse(t, redis, serve), startHouse(t, redis, serve)
	a.own(t, some("x"))
	resp := b.do(t, "GET", "/u1/x", nil)
	if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	a.crash()
	if rest, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("it ends in good order: %q", rest)
	}
	eventually(t, "it is counted", func() bool { return counted(t, b.members.count.forwards[outcomeBroken]) == 1 })
}
