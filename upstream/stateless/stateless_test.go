package stateless_test

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
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// statelessFake answers tools/call with call, and everything else correctly.
func statelessFake(t *testing.T,
	call func(w http.ResponseWriter, r *http.Request, m fake.Message)) (*fake.Server, *fake.Upstream) {
	f := fake.New(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall || call == nil {
			return false
		}
		call(w, r, m)
		return true
	})
	return f, fake.Start(t, upstream.Config{URL: f.URL, Headers: map[string]mcp.Secret{"Authorization": "Bearer xyz"}})
}

func TestStatelessRequest(t *testing.T) {
	f, u := statelessFake(t, nil)
	c := fake.Tool("ñame")
	c.Params = mcp.Raw(`{ "x" : 1.0, "name":"crm__ñame","arguments":{"b":2,"a":"<&>"},"task":{"ttl":1},` +
		`"inputResponses":{"k":1},"requestState":"s","_meta":{"vendor/k":[1, 2],"progressToken":"theirs",` +
		`"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientInfo":{"name":"them"},` +
		`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`)
	c.Caps = mcp.Raw(`{"roots":{"listChanged":true},"elicitation":{"form":{}},"tasks":{"list":{}},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}}`)
	c.LogLevel = "warning"
	fake.WantOK(t, u, c)

	got := f.Requests(mcp.MethodToolsCall)[0]
	for name, want := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?w7FhbWU=?=",
		"Authorization": "Bearer xyz", "Mcp-Session-Id": "", "Cookie": "", "Accept-Encoding": "identity",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("header %s: %q, want %q", name, got.Header.Get(name), want)
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
		c := fake.Tool("t")
		c.Session, c.Ephemeral, c.LogLevel = tt.session, tt.ephemeral, tt.level
		fake.WantOK(t, u, c)
		params := mcp.Raw(f.Requests(mcp.MethodToolsCall)[i].Params)
		if got := string(params.At("_meta", "io.modelcontextprotocol/logLevel")); got != tt.want {
			t.Errorf("%+v: the server reads the level %s", tt, got)
		}
	}
}

// TestListsChangedInACall: a server without subscriptions tells of changed lists on the stream of a call.
func TestListsChangedInACall(t *testing.T) {
	_, u := statelessFake(t, func(w http.ResponseWriter, _ *http.Request, m fake.Message) {
		for _, method := range []string{mcp.NoteToolsListChanged, mcp.NotePromptsListChanged, mcp.NoteResourceUpdated} {
			fake.Events(w, `data: {"jsonrpc":"2.0","method":"`+method+`","params":{}}`+"\n\n")
		}
		fake.Events(w, fake.Event(m, "", fake.OK))
	})
	var told []string
	c := fake.Tool("t")
	c.Notify = func(e mcp.Event) { told = append(told, e.Method) }
	fake.WantOK(t, u, c)
	if want := []string{mcp.NoteToolsListChanged, mcp.NotePromptsListChanged}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}

func TestParamHeaders(t *testing.T) {
	f := fake.New(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsList {
			return false
		}
		fake.Result(w, m, `{"ttlMs":1000,"cacheScope":"private",`+
			`"tools":[{"name":"t","inputSchema":{"type":"object","properties":{`+
			`"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"},`+
			`"b":{"type":"boolean","x-mcp-header":"Flag"},"in":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}}}}}]}`)
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	page := fake.MustDo(t, u, fake.List(mcp.MethodToolsList)).List
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
			c := fake.Tool("t")
			c.Params = mcp.Raw(`{"name":"t","arguments":` + tt.arguments + `}`)
			c.ParamHeaders = map[string]string{"region": "forged"}
			fake.WantOK(t, u, c)
			header := f.Requests(mcp.MethodToolsCall)[i].Header
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
	f := fake.New(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsList {
			return false
		}
		fake.Result(w, m, `{"tools":[`+strings.Join(tools, ",")+`]}`)
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	page := fake.MustDo(t, u, fake.List(mcp.MethodToolsList)).List
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
			f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m fake.Message) {
				if left.Add(-1) >= 0 {
					fake.Failure(w, 400, m, `{"code":-32020,"message":"Mcp-Param-Region missing"}`)
					return
				}
				fake.Result(w, m, fake.OK)
			})
			f.Handle = withTools(f.Handle, `[]`)
			reply, err := fake.Do(t, u, fake.Tool("a"))
			if tt.fails == 1 && (err != nil || string(reply.Result) != fake.OK) {
				t.Fatalf("reply %v, error %v", reply, err)
			}
			if tt.fails > 1 {
				fake.WantError(t, err, mcp.CodeInternal, mcp.ExecutedNo)
			}
			if calls, lists := len(f.Requests(mcp.MethodToolsCall)), len(f.Requests(mcp.MethodToolsList)); calls != 2 ||
				lists != 1 {
				t.Errorf("%d calls and %d lists, want 2 and 1", calls, lists)
			}
		})
	}
}

func withTools(next fake.Handler, tools string) fake.Handler {
	return func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodToolsList {
			fake.Result(w, m, `{"tools":`+tools+`}`)
			return true
		}
		return next(f, w, r, m)
	}
}

func TestUnsupportedVersion(t *testing.T) {
	left := atomic.Int32{}
	left.Store(1)
	f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m fake.Message) {
		if left.Add(-1) >= 0 {
			fake.Failure(w, 400, m, `{"code":-32022,"message":"no","data":{"supported":["2027-01-01","2026-07-28"]}}`)
			return
		}
		fake.Result(w, m, fake.OK)
	})
	fake.WantOK(t, u, fake.Tool("a"))
	calls := f.Requests(mcp.MethodToolsCall)
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
			_, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m fake.Message) {
				fake.Result(w, m, tt.result)
			})
			reply, err := fake.Do(t, u, fake.Tool("a"))
			if tt.code != 0 {
				fake.WantError(t, err, tt.code, mcp.ExecutedUnknown)
			} else if err != nil || string(reply.Result) != tt.result {
				t.Errorf("reply %v, error %v", reply, err)
			}
		})
	}
}

func TestStatelessRounds(t *testing.T) {
	f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m fake.Message) {
		fake.Result(w, m, `{"resultType":"input_required","requestState":"é\u0000\"","inputRequests":{`+
			`"z key":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}},"a":{"method":"roots/list"}}}`)
	})
	reply := fake.MustDo(t, u, fake.Asked("a"))
	if reply.Ask == nil || reply.Ask.Round.Top() != (mcp.Frame{Kind: mcp.FrameServer, Value: "é\x00\""}) ||
		reply.Ask.Here || len(reply.Ask.Requests) != 2 ||
		reply.Ask.Requests[0].Key != "z key" || reply.Ask.Requests[1].Method != mcp.MethodRootsList {
		t.Fatalf("ask %+v", reply.Ask)
	}
	again := fake.Asked("a")
	again.Round = reply.Ask.Round
	again.Answers = map[string]mcp.Raw{"z key": mcp.Raw(`{"action":"decline"}`), "a": mcp.Raw(`{"roots":[]}`)}
	fake.MustDo(t, u, again)
	noState := fake.Asked("a")
	noState.Answers = map[string]mcp.Raw{"z key": mcp.Raw(`{"action":"accept", "content":{}}`)}
	fake.MustDo(t, u, noState)

	calls := f.Requests(mcp.MethodToolsCall)
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
	f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m fake.Message) {
		fake.Events(w, ": here\n\n")
		<-r.Context().Done()
		close(closed)
	})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := u.Handle(ctx, fake.Tool("a"))
		failed <- err
	}()
	f.Await(t, mcp.MethodToolsCall, 1)
	cancel()
	for _, done := range []<-chan struct{}{closed} {
		select {
		case <-done:
		case <-time.After(fake.Patience):
			t.Fatal("the server's stream was not closed")
		}
	}
	if err := <-failed; err != context.Canceled {
		t.Errorf("error %v", err)
	}
	if n := len(f.Requests(mcp.NoteCancelled)); n != 0 {
		t.Errorf("%d notifications to a stateless server", n)
	}
}

func TestLostStreamIsNotRepeated(t *testing.T) {
	f, u := statelessFake(t, func(w http.ResponseWriter, r *http.Request, m fake.Message) {
		fake.Events(w, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n")
		panic(http.ErrAbortHandler)
	})
	_, err := fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if n := len(f.Requests("")); n != 2 { // discover and the call
		t.Errorf("%d requests", n)
	}
}

func TestOnePostACall(t *testing.T) {
	f, u := statelessFake(t, nil)
	fake.WantOK(t, u, fake.Tool("a"))
	before := len(f.Requests(""))
	for range 10 {
		fake.WantOK(t, u, fake.Tool("a"))
	}
	if n := len(f.Requests("")) - before; n != 10 {
		t.Errorf("%d requests for 10 calls", n)
	}
}
