package stream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAPanicInALastingAnswer: a panic ends the answer, which does not look whole.
func TestAPanicInALastingAnswer(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when+" it outlasts its handler", func(t *testing.T) {
			told := make(chan any, 1)
			w := newWriter(func(cause any) { told <- cause })
			returned := make(chan struct{})
			var s *Stream
			text, err := serveOne(t, func(rw http.ResponseWriter, r *http.Request) {
				defer close(returned)
				s = w.Begin(rw, http.NewResponseController(rw), "", nil)
				w.Outlast(r, s, func(_ context.Context, lasts func(*Stream)) {
					s.Send("", []byte("half"))
					s.Open()
					written(s)
					if when == "after" {
						lasts(s)
						<-returned
					}
					panic("an error of ours")
				})
			})
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(text, "half") {
				t.Errorf("%q %v", text, err)
			}
			if cause := <-told; cause != "an error of ours" {
				t.Errorf("told: %v", cause)
			}
			if <-returned; s.Usable() {
				t.Error("the stream goes on: its timers would write to an answer that has ended")
			}
		})
	}
}

// written returns when the client has taken everything.
func written(s *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing || s.waiting {
		s.changed.Wait()
	}
}

// TestNoConnectionIsKept: no connection is kept after the end of its stream.
func TestNoConnectionIsKept(t *testing.T) {
	w := newWriter(nil)
	ended := make(chan struct{})
	text, err := serveOne(t, func(rw http.ResponseWriter, r *http.Request) {
		s := w.Begin(rw, http.NewResponseController(rw), "hello", nil)
		w.Outlast(r, s, func(_ context.Context, lasts func(*Stream)) {
			defer close(ended)
			lasts(s)
			s.End("1", []byte("whole"))
		})
	})
	if err != nil || text != "id: 1\nevent: hello\ndata: whole\n\n" {
		t.Errorf("%q %v", text, err)
	}
	<-ended
	for range w.hijacked.Range {
		t.Error("a connection is kept")
	}
}

// serveOne makes a server answer one request, and returns the answer.
func serveOne(t *testing.T, handler http.HandlerFunc) (text string, err error) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	return get(server)
}

func get(server *httptest.Server) (text string, err error) {
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return string(all), err
}
