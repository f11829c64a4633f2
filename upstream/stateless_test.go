package upstream_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// statelessFake answers tools/call with call, and everything else correctly.
func statelessFake(t *testing.T, call func(w http.ResponseWriter, r *http.Request, m rpc)) (*fake, *upstream.Upstream) {
	f := newFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsCall || call == nil {
			return false
		}
		call(w, r, m)
		return true
	})
	return f, start(t, upstream.Config{URL: f.URL, Headers: map[string]mcp.Secret{"Authorization": "Bearer xyz"}})
}

func TestStatelessRequest(t *testing.T) {
	f, u := statelessFake(t, nil)
	c := tool("ñame")
	c.Params = mcp.Raw(`{ "x" : 1.0, "name":"crm__ñame","arguments":{"b":2,"a":"<&>"},"task":{"ttl":1},` +
		`"inputResponses":{"k":1},"requestState":"s","_meta":{"vendor/k":[1, 2],"progressToken":"theirs",` +
		`"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientInfo":{"name":"them"},` +
		`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`)
	c.Caps = mcp.Raw(`{"roots":{"listChanged":true},"elicitation":{"form":{}},"tasks":{"list":{}},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}}`)
	c.LogLevel = "warning"
	wantOK(t, u, c)

	got := f.requests(mcp.MethodToolsCall)[0]
	for name, want := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?w7FhbWU=?=",
		"Authorization": "Bearer xyz", "Mcp-Session-Id": "", "Cookie": "", "Accept-Encoding": "identity",
	} {
		if got.header.Get(name) != want {
			t.Errorf("header %s: %q, want %q", name, got.header.Get(name), want)
		}
	}
	params := mcp.Raw(got.Params)
	meta, _ := params.Member("_meta")
	if !strings.Contains(string(params), `"arguments":{"b":2,"a":"<&>"}`) || !strings.Contains(string(params), `"x":1.0`) {
		t.Errorf("params were rewritten: %s", params)
	}
	for name, want := range map[string]string{
		"io.modelcontextprotocol/protocolVersion": `"2026-07-28"`, "io.modelcontextprotocol/logLevel": `"warning"`,
		"vendor/k": `[1, 2]`, "progressToken": string(got.ID),
		"traceparent": `"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`,
		// What the client declared, reduced to what can be relayed.
		"io.modelcontextprotocol/clientCapabilities": `{"roots":{},"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}}`,
		"io.modelcontextprotocol/clientInfo":         `{"name":"gatehouse","version":"dev"}`,
	} {
		if value, _ := meta.Member(name); string(value) != want {
			t.Errorf("_meta %s: %s, want %s", name, value, want)
		}
	}
	for _, name := range []string{"task", "inputResponses", "requestState"} {
		if v, ok := params.Member(name); ok {
			t.Errorf("%s was sent: %s", name, v)
		}
	}
	if name, _ := params.Member("name"); name.Text() != "ñame" {
		t.Errorf("name %s", name)
	}
	if n := strings.Count(string(params), `"name":"`); n != 2 { // the tool's and ours in clientInfo
		t.Errorf("%d names in %s", n, params)
	}
}

// TestLogLevelOfAnyClient: a client with a session that has set no log level gets all log messages,
// so a stateless server is told to send them; nobody else asks for any.
func TestLogLevelOfAnyClient(t *testing.T) {
	f, u := statelessFake(t, nil)
	for i, tt := range []struct {
		session, level, want string
		ephemeral            bool
	}{
		{"user:s", "", `"debug"`, false}, {"user:s", "error", `"error"`, false}, {"user:~c", "", "", true},
		{"user:~c", "info", `"info"`, true}, {"", "", "", false},
	} {
		c := tool("t")
		c.Session, c.Ephemeral, c.LogLevel = tt.session, tt.ephemeral, tt.level
		wantOK(t, u, c)
		params := mcp.Raw(f.requests(mcp.MethodToolsCall)[i].Params)
		if got := string(params.At("_meta", "io.modelcontextprotocol/logLevel")); got != tt.want {
			t.Errorf("%+v: the server reads the level %s", tt, got)
		}
	}
}

// TestListsChangedInACall: a server without subscriptions tells of changed lists on the stream of a call.
func TestListsChangedInACall(t *testing.T) {
	_, u := statelessFake(t, func(w http.ResponseWriter, _ *http.Request, m rpc) {
		for _, method := range []string{mcp.NoteToolsListChanged, mcp.NotePromptsListChanged, mcp.NoteResourceUpdated} {
			events(w, `data: {"jsonrpc":"2.0","method":"`+method+`","params":{}}`+"\n\n")
		}
		events(w, event(m, "", okResult))
	})
	var told []string
	c := tool("t")
	c.Notify = func(e mcp.Event) { told = append(told, e.Method) }
	wantOK(t, u, c)
	if want := []string{mcp.NoteToolsListChanged, mcp.NotePromptsListChanged}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}

func TestParamHeaders(t *testing.T) {
	f := newFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsList {
			return false
		}
		result(w, m, `{"ttlMs":1000,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object","properties":{`+
			`"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"},`+
			`"b":{"type":"boolean","x-mcp-header":"Flag"},"in":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}}}}}]}`)
		return true
	})
	u := start(t, upstream.Config{URL: f.URL})
	page := mustDo(t, u, list(mcp.MethodToolsList)).List
	if !page.Private || page.Expires.IsZero() || page.Expires.After(time.Now().Add(2*time.Second)) {
		t.Errorf("list %+v", page)
	}
	for i, tt := range []struct {
		name, arguments string
		want            map[string]string
	}{
		{"all", `{"region":"eu","n":42,"b":true,"in":{"deep":"x"}}`,
			map[string]string{"Region": "eu", "Count": "42", "Flag": "true", "Deep": "x"}},
		{"null and absent", `{"region":null}`, map[string]string{}},
		{"empty string", `{"region":""}`, map[string]string{"Region": ""}},
		{"sentinel", `{"region":"zürich"}`, map[string]string{"Region": "=?base64?esO8cmljaA==?="}},
		{"line ends", `{"region":"a\r\nX-Evil: 1"}`, map[string]string{"Region": "=?base64?YQ0KWC1FdmlsOiAx?="}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := tool("t")
			c.Params = mcp.Raw(`{"name":"t","arguments":` + tt.arguments + `}`)
			c.ParamHeaders = map[string]string{"region": "forged"}
			wantOK(t, u, c)
			header := f.requests(mcp.MethodToolsCall)[i].header
			for _, name := range []string{"Region", "Count", "Flag", "Deep"} {
				want, has := tt.want[name]
				if got, sent := header["Mcp-Param-"+name]; sent != has || has && got[0] != want {
					t.Errorf("Mcp-Param-%s: %q, want %q (%v)", name, got, want, has)
				}
			}
		})
	}
}

func TestInvalidAnnotationDropsTheTool(t *testing.T) {
	bad := map[string]string{
		"empty":     `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`,
		"not-token": `{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`,
		"CR":        `{"properties":{"a":{"type":"string","x-mcp-header":"a\r"}}}`,
		"twice":     `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		"number":    `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		"array":     `{"properties":{"a":{"type":"array","x-mcp-header":"A"}}}`,
		"items":     `{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`,
		"oneOf":     `{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`,
	}
	var tools []string
	for name, schema := range bad {
		tools = append(tools, `{"name":"`+name+`","inputSchema":`+schema+`}`)
	}
	tools = append(tools, `{"name":"good","inputSchema":{"type":"object"}}`)
	f := newFake(t, false, func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsList {
			return false
		}
		result(w, m, `{"tools":[`+strings.Join(tools, ",")+`]}`)
		return true
	})
	u := start(t, upstream.Config{URL: f.URL})
	page := mustDo(t, u, list(mcp.MethodToolsList)).List
	if len(page.Items) != 1 || page.Items[0].Name != "good" {
		t.Errorf("listed %d tools, want good alone", len(page.Items))
	}
	dropped := u.Status().DroppedTools
	for name := range bad {
		if dropped[name] == "" {
			t.Errorf("%s: no reason in the status", name)
		}
	}
}

func TestHeaderMismatch(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails int32
	}{{"repaired", 1}, {"for good", 9}} {
		t.Run(tt.name, func(t *testing.T) {
			left := atomic.Int32{}
			left.Store(tt.fails)
			f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m rpc) {
				if left.Add(-1) >= 0 {
					failure(w, 400, m, `{"code":-32020,"message":"Mcp-Param-Region missing"}`)
					return
				}
				result(w, m, okResult)
			})
			f.handle = withTools(f.handle, `[]`)
			reply, err := do(t, u, tool("a"))
			if tt.fails == 1 && (err != nil || string(reply.Result) != okResult) {
				t.Fatalf("reply %v, error %v", reply, err)
			}
			if tt.fails > 1 {
				wantError(t, err, mcp.CodeInternal, mcp.ExecutedNo)
			}
			if calls, lists := len(f.requests(mcp.MethodToolsCall)), len(f.requests(mcp.MethodToolsList)); calls != 2 ||
				lists != 1 {
				t.Errorf("%d calls and %d lists, want 2 and 1", calls, lists)
			}
		})
	}
}

func withTools(next func(*fake, http.ResponseWriter, *http.Request, rpc) bool, tools string) func(*fake,
	http.ResponseWriter, *http.Request, rpc) bool {
	return func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method == mcp.MethodToolsList {
			result(w, m, `{"tools":`+tools+`}`)
			return true
		}
		return next(f, w, r, m)
	}
}

func TestUnsupportedVersion(t *testing.T) {
	left := atomic.Int32{}
	left.Store(1)
	f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m rpc) {
		if left.Add(-1) >= 0 {
			failure(w, 400, m, `{"code":-32022,"message":"no","data":{"supported":["2027-01-01","2026-07-28"]}}`)
			return
		}
		result(w, m, okResult)
	})
	wantOK(t, u, tool("a"))
	calls := f.requests(mcp.MethodToolsCall)
	if len(calls) != 2 || string(calls[0].ID) == string(calls[1].ID) {
		t.Errorf("%d calls", len(calls))
	}
}

func TestResultType(t *testing.T) {
	for _, tt := range []struct {
		name, result string
		code         int
	}{
		{"absent", `{"content":[]}`, 0},
		{"complete", `{"resultType":"complete","content":[]}`, 0},
		{"unknown", `{"resultType":"later","content":[]}`, mcp.CodeUpstreamBadAnswer},
		{"task, not declared", `{"resultType":"task","taskId":"1"}`, mcp.CodeUpstreamBadAnswer},
		{"asks for nothing", `{"resultType":"input_required"}`, mcp.CodeUpstreamBadAnswer},
		{"asks what was not declared", `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`,
			mcp.CodeInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m rpc) { result(w, m, tt.result) })
			reply, err := do(t, u, tool("a"))
			if tt.code != 0 {
				wantError(t, err, tt.code, mcp.ExecutedUnknown)
			} else if err != nil || string(reply.Result) != tt.result {
				t.Errorf("reply %v, error %v", reply, err)
			}
		})
	}
}

func TestStatelessRounds(t *testing.T) {
	f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m rpc) {
		result(w, m, `{"resultType":"input_required","requestState":"é\u0000\"","inputRequests":{`+
			`"z key":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}},"a":{"method":"roots/list"}}}`)
	})
	reply := mustDo(t, u, asked("a"))
	if reply.Ask == nil || reply.Ask.Round.Top() != (mcp.Frame{Kind: mcp.FrameServer, Value: "é\x00\""}) ||
		reply.Ask.Here || len(reply.Ask.Requests) != 2 ||
		reply.Ask.Requests[0].Key != "z key" || reply.Ask.Requests[1].Method != mcp.MethodRootsList {
		t.Fatalf("ask %+v", reply.Ask)
	}
	again := asked("a")
	again.Round = reply.Ask.Round
	again.Answers = map[string]mcp.Raw{"z key": mcp.Raw(`{"action":"decline"}`), "a": mcp.Raw(`{"roots":[]}`)}
	mustDo(t, u, again)
	noState := asked("a")
	noState.Answers = map[string]mcp.Raw{"z key": mcp.Raw(`{"action":"accept", "content":{}}`)}
	mustDo(t, u, noState)

	calls := f.requests(mcp.MethodToolsCall)
	var got struct {
		InputResponses json.RawMessage
		RequestState   *string
	}
	unmarshal(t, calls[1].Params, &got)
	if got.RequestState == nil || *got.RequestState != "é\x00\"" {
		t.Errorf("state %v", got.RequestState)
	}
	if want := `{"a":{"roots":[]},"z key":{"action":"decline"}}`; string(got.InputResponses) != want {
		t.Errorf("answers %s, want %s", got.InputResponses, want)
	}
	if string(calls[0].ID) == string(calls[1].ID) || string(calls[1].ID) == string(calls[2].ID) {
		t.Error("an id was used twice")
	}
	got.RequestState = nil
	unmarshal(t, calls[2].Params, &got)
	if want := `{"z key":{"action":"accept", "content":{}}}`; string(got.InputResponses) != want ||
		got.RequestState != nil {
		t.Errorf("answers without state: %s, state %v", got.InputResponses, got.RequestState)
	}
}

func unmarshal(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func TestCancelClosesTheStream(t *testing.T) {
	closed := make(chan struct{})
	f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, ": here\n\n")
		<-r.Context().Done()
		close(closed)
	})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := u.Handle(ctx, tool("a"))
		failed <- err
	}()
	f.await(t, mcp.MethodToolsCall, 1)
	cancel()
	for _, done := range []<-chan struct{}{closed} {
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("the server's stream was not closed")
		}
	}
	if err := <-failed; err != context.Canceled {
		t.Errorf("error %v", err)
	}
	if n := len(f.requests(mcp.NoteCancelled)); n != 0 {
		t.Errorf("%d notifications to a stateless server", n)
	}
}

func TestLostStreamIsNotRepeated(t *testing.T) {
	f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m rpc) {
		events(w, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n")
		panic(http.ErrAbortHandler)
	})
	_, err := do(t, u, tool("a"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if n := len(f.requests("")); n != 2 { // discover and the call
		t.Errorf("%d requests", n)
	}
}

func TestOnePostACall(t *testing.T) {
	f, u := statelessFake(t, nil)
	wantOK(t, u, tool("a"))
	before := len(f.requests(""))
	for range 10 {
		wantOK(t, u, tool("a"))
	}
	if n := len(f.requests("")) - before; n != 10 {
		t.Errorf("%d requests for 10 calls", n)
	}
}
