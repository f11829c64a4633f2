package front

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestEndRelayed is about streams that break off on their way from another replica.
func TestEndRelayed(t *testing.T) {
	const event = "data: 1\n\n"
	for _, tt := range []struct {
		name, method, session, contentType, written string
		message                                     wire.Message
		stops                                       bool
		want                                        string // what the client gets in addition, "-" for a broken connection
	}{
		{name: "a call without a session", written: event, message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")},
			want: `"id":7,"error":{"code":50205`},
		{name: "before its first event", message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")},
			want: `"id":7,"error":{"code":50205`},
		{name: "in the middle of an event", written: event + "data: 2\n",
			message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}, want: "-"},
		{name: "a call in a session, which can be gone on with", session: "s", written: event,
			message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}, want: "-"},
		{name: "an answer that is no stream", contentType: "application/json", written: "\n\n",
			message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}, want: "-"},
		{name: "the stream of a session", method: "GET", session: "s", written: event, want: "-"},
		{name: "the same, and this replica stops", method: "GET", session: "s", written: event, stops: true, want: ""},
		{name: "a subscription, and this replica stops", written: event,
			message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7"),
				Method: mcp.MethodListen}, stops: true, want: `"id":7,"result":{"resultType":"complete"`},
		{name: "a call, and this replica stops", written: event, message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")},
			stops: true, want: `"id":7,"error":{"code":50205`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newBench(t, Config{}).front
			if tt.stops {
				f.Drain(t.Context(), false)
			}
			recorder := httptest.NewRecorder()
			p := &posted{Request: request.Request{R: httptest.NewRequest(cmp.Or(tt.method, "POST"), "/mcp", nil),
				Message: tt.message}}
			if tt.session != "" {
				p.R.Header.Set(wire.HeaderSession, tt.session)
			}
			w := &relayed{ResponseWriter: recorder, rc: http.NewResponseController(recorder), writer: f.endpoint.Writer}
			w.Header().Set("Content-Type", "text/event-stream")
			if tt.contentType != "" {
				w.Header().Set("Content-Type", tt.contentType)
			}
			w.WriteHeader(http.StatusOK)
			if _, err := w.Write([]byte(tt.written)); err != nil {
				t.Fatal(err)
			}
			ended := f.endRelayed(p, w)
			added := strings.TrimPrefix(recorder.Body.String(), tt.written)
			if ended != (tt.want != "-") || ended && !strings.Contains(added, tt.want) || tt.want == "" && added != "" ||
				!ended && added != "" {
				t.Errorf("ended %t, added %q; want %q", ended, added, tt.want)
			}
		})
	}
}

// TestEndRelayedOfKnownLength: the end takes the place of an answer whose length was announced.
func TestEndRelayedOfKnownLength(t *testing.T) {
	f := newBench(t, Config{}).front
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &relayed{ResponseWriter: rw, rc: http.NewResponseController(rw), writer: f.endpoint.Writer}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Length", "2000")
		w.WriteHeader(http.StatusOK)
		if !f.endRelayed(&posted{Request: request.Request{R: r,
			Message: wire.Message{Kind: wire.Request, ID: mcp.Raw("7")}}}, w) {
			t.Error("it was not ended")
		}
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"id":7,"error"`) {
		t.Errorf("%s %v", text, err)
	}
}

// TestRelayedLate: an answer without a body reaches the client also after the server's own deadline.
func TestRelayedLate(t *testing.T) {
	f := newBench(t, Config{}).front
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w := &relayed{ResponseWriter: rw, rc: http.NewResponseController(rw), writer: f.endpoint.Writer}
		if err := w.rc.SetWriteDeadline(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
		t.Error(resp.Status)
	}
}
