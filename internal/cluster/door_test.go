package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// door stands in for gateway/front: it serves each request where its home is. The path is
// /user/id, perhaps followed by more.
type door struct {
	cluster *Cluster
	serve   func(w http.ResponseWriter, r *http.Request, o Owner)
	caller  string // what the clients of this door have proved

	mu   sync.Mutex // guards held
	held map[string]Owner
}

// tries bounds how often a door asks for the owner.
const tries = 5

func homeOf(r *http.Request) Home {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	if len(parts) < 2 {
		return Home{}
	}
	return Home{User: parts[0], ID: parts[1]}
}

// status is the HTTP status for an error.
func status(err error) int {
	switch {
	case errors.Is(err, ErrNoHome):
		return http.StatusNotFound
	case errors.Is(err, ErrLost):
		return http.StatusBadGateway
	}
	return http.StatusServiceUnavailable
}

// own returns the owner of a home. As long as it is certainly this replica, Redis need not answer.
func (d *door) own(ctx context.Context, h Home) (Owner, error) {
	d.mu.Lock()
	held, ok := d.held[h.Key()]
	d.mu.Unlock()
	if ok && d.cluster.Certain(held) {
		return held, nil
	}
	o, err := d.cluster.Own(ctx, h)
	if err != nil {
		return o, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.held, h.Key())
	if o.Here() {
		d.held[h.Key()] = o
	}
	return o, nil
}

// give releases a home of this replica.
func (d *door) give(ctx context.Context, key string) error {
	d.mu.Lock()
	o := d.held[key]
	delete(d.held, key)
	d.mu.Unlock()
	user, id, _ := strings.Cut(key, ":")
	return d.cluster.Release(ctx, Home{User: user, ID: id}, o)
}

// ServeHTTP serves the requests of clients.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	for range tries {
		var o Owner
		if o, err = d.own(r.Context(), homeOf(r)); err != nil {
			break
		}
		if o.Here() {
			d.serve(w, r, o)
			return
		}
		err = d.cluster.Forward(w, r, o.Replica, homeOf(r).Key(), []byte(d.caller))
		if !errors.Is(err, ErrGone) && !errors.Is(err, ErrMoved) {
			break
		}
	}
	if errors.Is(err, ErrBroken) {
		panic(http.ErrAbortHandler)
	}
	if err != nil && r.Context().Err() == nil {
		http.Error(w, err.Error(), status(err))
	}
}

// backDoor serves what other replicas forward (Receiver).
type backDoor struct{ *door }

func (d backDoor) ReleaseHome(home string) { _ = d.give(context.Background(), home) } // Redis bounds it

func (d backDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, home, ok := Forwarded(r)
	h := homeOf(r)
	if !ok || home != h.Key() {
		http.Error(w, "a request without its home", http.StatusInternalServerError)
		return
	}
	o, err := d.own(r.Context(), h)
	switch {
	case err != nil:
		http.Error(w, err.Error(), status(err))
	case !o.Here():
		Moved(w)
	default:
		d.serve(w, r, o)
	}
}

// house is a replica with its door.
type house struct {
	*replica
	door   *door
	public *httptest.Server
}

// startHouse runs a house until the test ends.
func startHouse(t testing.TB, redis *redistest.Server, serve func(http.ResponseWriter, *http.Request, Owner),
	change ...func(*Config, *Deps, *times)) *house {
	t.Helper()
	d := &door{serve: serve, caller: "somebody", held: make(map[string]Owner)}
	h := &house{door: d}
	h.replica = startReplica(t, redis, backDoor{d}, change...)
	h.public = httptest.NewServer(d)
	t.Cleanup(func() {
		h.public.CloseClientConnections()
		h.public.Close()
	})
	return h
}

// do sends a request to the door.
func (h *house) do(t testing.TB, method, path string, body io.Reader, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.public.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := h.public.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// get returns the body of an answer with status 200.
func (h *house) get(t testing.TB, path string) string {
	t.Helper()
	resp := h.do(t, "GET", path, nil)
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %q %v", path, resp.Status, text, err)
	}
	return string(text)
}

// sayWho answers with the name of the replica that serves the request.
func sayWho(w http.ResponseWriter, _ *http.Request, o Owner) { _, _ = io.WriteString(w, o.Replica) }
