package dial_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// frames serves a fake over HTTP/2, frame by frame. meet decides what happens to tool
// calls, and reports whether it has answered itself.
type frames struct {
	*fake.Server
	meet func(f *http2.Framer, stream uint32, call int) (over bool)

	calls atomic.Int64 // tool calls that arrived
}

// newFrames starts a server with a trusted certificate.
func newFrames(t *testing.T, stateful bool, meet func(f *http2.Framer, stream uint32, call int) bool) *frames {
	t.Helper()
	known, err := fake.Trusted()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{known.Certificate(t, "127.0.0.1", time.Hour)}, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &frames{Server: fake.NewUnstarted(stateful, nil), meet: meet}
	s.Server.Server = &httptest.Server{URL: "https://" + listener.Addr().String()}
	over := make(chan struct{})
	t.Cleanup(func() {
		listener.Close()
		<-over
	})
	go func() {
		defer close(over)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go s.serve(conn)
		}
	}()
	return s
}

// serve answers the requests on a connection, one after the other, until it ends.
func (s *frames) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if f.WriteSettings() != nil {
		return
	}
	requests, bodies := map[uint32]*http.Request{}, map[uint32]*bytes.Buffer{}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		id, ended := frame.Header().StreamID, false
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				err = f.WritePing(true, frame.Data)
			}
		case *http2.MetaHeadersFrame:
			r := httptest.NewRequest(frame.PseudoValue("method"), frame.PseudoValue("path"), nil)
			for _, h := range frame.RegularFields() {
				r.Header.Add(h.Name, h.Value)
			}
			requests[id], bodies[id], ended = r, &bytes.Buffer{}, frame.StreamEnded()
		case *http2.DataFrame:
			bodies[id].Write(frame.Data())
			ended = frame.StreamEnded()
		}
		if err == nil && ended {
			err = s.answer(f, id, requests[id], bodies[id])
		}
		if err != nil {
			return
		}
	}
}

func (s *frames) answer(f *http2.Framer, id uint32, r *http.Request, body *bytes.Buffer) error {
	if strings.Contains(body.String(), `"method":"tools/call"`) {
		if call := s.calls.Add(1); s.meet(f, id, int(call)) {
			return nil
		}
	}
	r.Body = io.NopCloser(body)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	fields := map[string]string{":status": strconv.Itoa(w.Code)}
	for name := range w.Header() {
		fields[strings.ToLower(name)] = w.Header().Get(name)
	}
	for _, first := range []bool{true, false} { // the status comes first
		for name, value := range fields {
			if strings.HasPrefix(name, ":") == first {
				_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // to memory
			}
		}
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(),
		EndHeaders: true}); err != nil {
		return err
	}
	return f.WriteData(id, true, w.Body.Bytes())
}

// TestHTTP2Faults: over HTTP/2 a server says which requests it has not read. Only those are
// repeated. A request that it may have read is reported as lost.
func TestHTTP2Faults(t *testing.T) {
	first := func(do func(f *http2.Framer, stream uint32) error) func(*http2.Framer, uint32, int) bool {
		return func(f *http2.Framer, stream uint32, call int) bool {
			return call == 1 && do(f, stream) == nil
		}
	}
	for _, tt := range []struct {
		name  string
		meet  func(f *http2.Framer, stream uint32, call int) bool
		calls int64 // that come to the server
		lost  bool
	}{
		{"the stream is refused", first(func(f *http2.Framer, stream uint32) error {
			return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		}), 2, false},
		{"the server goes away, and has not read it", first(func(f *http2.Framer, stream uint32) error {
			return f.WriteGoAway(stream-2, http2.ErrCodeNo, nil)
		}), 2, false},
		{"the server goes away, and has answered it", func(f *http2.Framer, stream uint32, call int) bool {
			return call == 1 && f.WriteGoAway(stream, http2.ErrCodeNo, nil) != nil
		}, 1, false},
		{"the stream is reset", first(func(f *http2.Framer, stream uint32) error {
			return f.WriteRSTStream(stream, http2.ErrCodeInternal)
		}), 1, true},
		{"the stream is cancelled", first(func(f *http2.Framer, stream uint32) error {
			return f.WriteRSTStream(stream, http2.ErrCodeCancel)
		}), 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake.Eras(t, func(t *testing.T, stateful bool) {
				s := newFrames(t, stateful, tt.meet)
				u := s.Upstream(t, upstream.Config{})
				_, err := fake.Do(t, u, fake.Tool("a"))
				if tt.lost {
					fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
				} else if err != nil {
					t.Errorf("error %v", err)
				}
				if n := s.calls.Load(); n != tt.calls {
					t.Errorf("%d calls came, want %d", n, tt.calls)
				}
				fake.MustDo(t, u, fake.Tool("a")) // all is well again
				if n := s.calls.Load(); n != tt.calls+1 {
					t.Errorf("%d calls came, want %d and another one", n, tt.calls)
				}
			})
		})
	}
}
