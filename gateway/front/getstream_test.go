package front

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

func TestOneStream(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	old := rawStream(t, b, c, "")
	first := old.id(t)
	b.script.waitListening(t, 1)
	newest := rawStream(t, b, c, "")
	if second := newest.id(t); second == first {
		t.Errorf("two events have the id %s", second)
	}
	b.script.waitListening(t, 1) // still one for the whole session
	for n := range 3 {
		b.script.emit(mcp.NoteResourceUpdated, fmt.Sprintf(`{"uri":"doc://%d"}`, n))
		if got := newest.line(t, "data: {"); !strings.Contains(got, fmt.Sprintf(`doc://%d`, n)) {
			t.Errorf("got %s", got)
		}
	}
	if _, _, err := c.Call(t.Context(), "tools/call", `{"name":"empty"}`); err != nil {
		t.Fatal(err)
	}
	newest.close()
	// The older one takes over as soon as the newest is seen to be gone.
	for end := time.After(tooLong); ; {
		b.script.emit(mcp.NoteToolsListChanged, `{}`)
		select {
		case line, open := <-old.lines:
			if !open || strings.Contains(line, "doc://") || strings.Contains(line, "result") {
				t.Fatalf("the older stream has %q, open: %t", line, open)
			}
			if strings.Contains(line, "list_changed") {
				return
			}
		case <-time.After(10 * time.Millisecond):
		case <-end:
			t.Fatal("nothing comes")
		}
	}
}

func TestEventsWaitForAStream(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2506)
	if r, _, err := c.Call(t.Context(), "resources/subscribe", `{"uri":"doc://1"}`); err != nil || r.Error != nil {
		t.Fatalf("subscribe: %s %v", r.Text, err)
	}
	for range 3 {
		b.script.emit(mcp.NoteToolsListChanged, `{}`)
		b.script.emit(mcp.NoteResourceUpdated, `{"uri":"doc://1"}`)
		b.script.emit(mcp.NoteProgress, `{"progressToken":1,"progress":1}`) // never on this stream
	}
	stream := rawStream(t, b, c, "")
	if id := stream.line(t, ""); !strings.HasPrefix(id, "id: g-") {
		t.Errorf("the first line of an older revision is %q: want no priming event", id)
	}
	for _, want := range []string{mcp.NoteToolsListChanged, mcp.NoteResourceUpdated} {
		if got := stream.line(t, "data: "); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	b.script.emit(mcp.NotePromptsListChanged, `{}`)
	if got := stream.line(t, "data: "); !strings.Contains(got, mcp.NotePromptsListChanged) {
		t.Errorf("after them: %s", got)
	}
}

func TestGETStreamIsResumed(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	stream := rawStream(t, b, c, "")
	stream.id(t)
	b.script.waitListening(t, 1)
	b.script.emit(mcp.NoteToolsListChanged, `{}`)
	seen := stream.id(t)
	b.script.emit(mcp.NotePromptsListChanged, `{}`)
	stream.line(t, "data: {")
	stream.line(t, "data: {") // it came, but let us pretend that it was not read
	c.Header = http.Header{wire.HeaderLastEventID: {seen}}
	resumed := rawStream(t, b, c, "")
	if got := resumed.line(t, "data: {"); !strings.Contains(got, mcp.NotePromptsListChanged) {
		t.Errorf("replayed: %s", got)
	}
	stream.end(t) // its client has left it
	b.script.emit(mcp.NoteResourcesListChanged, `{}`)
	if got := resumed.line(t, "data: {"); !strings.Contains(got, mcp.NoteResourcesListChanged) {
		t.Errorf("then: %s", got)
	}
}

func TestNothingBeforeInitialized(t *testing.T) {
	b := newBench(t, Config{})
	resp, _ := b.send("POST",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}}`, nil)
	c := b.client(v2511, `{"elicitation":{}}`)
	c.Session = resp.Header.Get(wire.HeaderSession)
	stream := rawStream(t, b, c, "")
	stream.id(t)
	b.script.waitListening(t, 0)
	r, before, err := c.Call(t.Context(), "tools/call", `{"name":"ask"}`)
	if err != nil || len(before) != 0 || !strings.Contains(r.Text, "notifications/initialized") {
		t.Errorf("a question: %s %v %v", r.Text, before, err)
	}
	if _, err := c.Notify(t.Context(), "notifications/initialized", `{}`); err != nil {
		t.Fatal(err)
	}
	b.script.waitListening(t, 1)
}

func TestSubscriptions(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	do := func(method, uri string, wantError string) {
		t.Helper()
		r, _, err := c.Call(t.Context(), method, fmt.Sprintf(`{"uri":%q}`, uri))
		switch {
		case err != nil:
			t.Fatal(err)
		case wantError == "" && r.Error != nil, wantError != "" && !strings.Contains(r.Text, wantError):
			t.Errorf("%s %s: %s", method, uri, r.Text)
		}
	}
	uris := func() string {
		list, _ := b.script.last(mcp.MethodListen).Params.Member("notifications")
		list, _ = list.Member("resourceSubscriptions")
		return string(list)
	}
	do("resources/subscribe", "doc://1", "")
	b.script.waitListening(t, 1)
	do("resources/subscribe", "doc://2", "")
	b.script.waitListening(t, 1)
	if got := uris(); got != `["doc://1","doc://2"]` {
		t.Errorf("listening to %s", got)
	}
	do("resources/subscribe", "doc://2", "") // again: nothing changes
	do("resources/subscribe", "file:///x", `-32002`)
	b.script.waitListening(t, 1)
	do("resources/subscribe", "doc://3", "")
	if got := uris(); got != `["doc://1","doc://2","doc://3"]` {
		t.Errorf("the one that failed is among %s", got)
	}
	do("resources/unsubscribe", "doc://1", "")
	do("resources/unsubscribe", "doc://9", "")
	b.script.waitListening(t, 1)
	if got := uris(); got != `["doc://2","doc://3"]` {
		t.Errorf("listening to %s", got)
	}
	c.Delete(t.Context())
	b.script.waitListening(t, 0)
}

func TestListen(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2607)
	c.Header = http.Header{wire.HeaderMethod: {"subscriptions/listen"}}
	listen := func(id, filter string) *raw {
		return rawStream(t, b, c, `{"jsonrpc":"2.0","id":`+id+`,"method":"subscriptions/listen","params":{"notifications":`+
			filter+`,`+meta+`}}`)
	}
	one := listen(`"s1"`, `{"toolsListChanged":true,"resourceSubscriptions":["doc://1","file:///no"],"other":true}`)
	if got, want := one.line(t,
		""), `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["doc://1"]},"_meta":{"io.modelcontextprotocol/subscriptionId":"s1"}}}`; got != want {
		t.Errorf("the first line is\n%s\nwant\n%s", got, want)
	}
	two := listen(`2.0`, `{"toolsListChanged":true}`)
	two.line(t, "data: ")
	b.script.waitListening(t, 2)
	b.script.emit(mcp.NotePromptsListChanged, `{}`)
	b.script.emit(mcp.NoteProgress, `{"progressToken":1,"progress":1}`)
	b.script.emit(mcp.NoteMessage, `{"level":"error","data":1}`)
	b.script.emit(mcp.NoteToolsListChanged, `{}`)
	b.script.emit(mcp.NoteResourceUpdated, `{"uri":"doc://1","_meta":{"a/b":1}}`)
	if got, want := two.line(t,
		"data: "), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2.0}}}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	one.line(t, "data: ")
	if got, want := one.line(t,
		"data: "), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"doc://1","_meta":{"a/b":1,"io.modelcontextprotocol/subscriptionId":"s1"}}}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	two.close()
	b.script.waitListening(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	defer cancel()
	if err := b.front.Close(ctx); err != nil {
		t.Fatal(err)
	}
	rest := strings.Join(one.end(t), "\n")
	if want := `data: {"jsonrpc":"2.0","id":"s1","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"gate","title":"Gate","version":"1"},"io.modelcontextprotocol/subscriptionId":"s1"}}}`; strings.TrimSpace(rest) != want {
		t.Errorf("the end is\n%s\nwant\n%s", rest, want)
	}
	if strings.Contains(rest, "id: ") {
		t.Error("there are event ids")
	}
}

func TestListenRefusals(t *testing.T) {
	b := newBench(t, Config{})
	for _, filter := range []string{``, `"notifications":7,`, `"notifications":{"resourceSubscriptions":7},`,
		`"notifications":{"resourceSubscriptions":[7]},`,
		`"notifications":{"toolsListChanged":true,"toolslistchanged":true},`} {
		resp, text := b.send("POST", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+filter+meta+`}}`,
			modern("subscriptions/listen", ""))
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, `-32602`) {
			t.Errorf("%s: %d %s", filter, resp.StatusCode, text)
		}
	}
}

func TestClose(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	stream := rawStream(t, b, c, "")
	stream.id(t)
	b.script.waitListening(t, 1)
	done, _ := start(t, c, "1", `{"name":"slow"}`)
	receive(t, "the call", b.script.started)
	closed := make(chan error, 1)
	go func() { closed <- b.front.Close(context.Background()) }()
	<-b.front.endpoint.Running.Draining.Done()
	resp, text := b.send("POST", `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`,
		http.Header{wire.HeaderSession: {c.Session}})
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, `50301`) ||
		!strings.Contains(text, `"id":9`) {
		t.Errorf("a new request: %d %s", resp.StatusCode, text)
	}
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	b.script.release <- struct{}{}
	if m, err := receive(t, "the answer", done).Response(); err != nil || m.Error != nil {
		t.Errorf("the call that ran: %s %v", m.Text, err)
	}
	if got := strings.Join(stream.end(t), "\n"); !strings.Contains(got, "retry: 1000") {
		t.Errorf("the stream ended with %q", got)
	}
	if err := receive(t, "Close", closed); err != nil {
		t.Error(err)
	}
}

func TestCloseGivesUpWaiting(t *testing.T) {
	b := newBench(t, Config{})
	done, _ := start(t, b.client(v2511), "1", `{"name":"slow"}`)
	receive(t, "the call", b.script.started)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.front.Close(ctx); err == nil || !strings.Contains(err.Error(), "calls were cut off (1)") {
		t.Errorf("closed with %v, want that a call was cut off", err)
	}
	m, err := receive(t, "the answer", done).Response()
	if err != nil || m.Error == nil || m.Error.Code != mcp.CodeDraining ||
		!strings.Contains(string(m.Error.Data), `"executed":"unknown"`) {
		t.Errorf("got %s %v", m.Text, err)
	}
}

// The server's time limits for reading a request and for answering it end neither a stream nor
// a call.
func TestTimeoutsOfTheServer(t *testing.T) {
	b := newBench(t, Config{KeepAlive: 500 * time.Millisecond})
	server := httptest.NewUnstartedServer(b)
	server.Config.ReadTimeout, server.Config.WriteTimeout = time.Second, time.Second
	server.Start()
	defer server.Close()
	c := b.client(v2511)
	b.url = server.URL
	stream := rawStream(t, b, c, "")
	defer stream.close()
	stream.line(t, "data:")
	status := make(chan int, 1)
	go func() { // this one is cancelled, and so has no answer
		defer close(status)
		resp, _ := b.send("POST", `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"slow"}}`,
			http.Header{wire.HeaderSession: {c.Session}, "Accept": {"application/json"}})
		status <- resp.StatusCode
	}()
	<-b.script.started
	for range 3 {
		stream.line(t, ": keep-alive")
	}
	b.front.Sessions.Known(b.home(c)).Cancel(mcp.Raw("9"), "")
	if got := <-status; got != http.StatusAccepted {
		t.Errorf("status %d", got)
	}
}
