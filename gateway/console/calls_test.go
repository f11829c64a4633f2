package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

const oneCall = `{"id":"r-1","layers":[{"layer":"policy","said":` + hostileJSON + `}],"values":false,"curl_arguments":false,"missed":3,
"record":{"time":"2026-11-23T10:00:01Z","kind":"call","id":"r-1","user":` + hostileJSON + `,
	"groups":[` + hostileJSON + `],
	"method":"tools/call","name":` + hostileJSON + `,"upstream":"up","original":"work","decision":"allow",
	"rule":` + hostileJSON + `,"outcome":"ok","duration_ms":12.5,"revision":"2026-07-28","upstream_revision":"2025-11-25",
	"trace":"4bf92f3577b34da6a3ce929d0e0e4736"},
"steps":[{"step":"identity","round":1,"start_ms":0,"duration_ms":0.5},{"step":"policy","round":1,"start_ms":0.5,"duration_ms":0.1,"result":"GH-X"},
	{"step":"server","of":` + hostileJSON + `,"round":2,"start_ms":50,"duration_ms":50,"result":` + hostileJSON + `},{"step":"answer","round":2,"start_ms":100,"duration_ms":0,"open":true}],
"messages":[{"edge":"client","received":true,"round":1,"at_ms":0,"headers":[{"name":"Mcp-Name","value":` + hostileJSON + `}],"text":` + hostileJSON + `,"bytes":100,"cut":true},
	{"edge":"server","received":false,"round":1,"at_ms":1,"text":"to the server","bytes":100},{"edge":"client","received":false,"round":2,"at_ms":2,"status":200,"text":"the answer","bytes":2000}],
"now":{"effect":"deny","text":` + hostileJSON + `,"notes":["a note"]},"curl":"curl 'x' ` + `\u003cscript\u003e",
"similar":[{"time":"2026-11-23T09:00:00Z","kind":"call","id":"../x","user":"bob","decision":"deny","outcome":"invalid","error_code":"GH-Y","duration_ms":0.4}]}`

const someCalls = `{"decisions":[{"time":"2026-11-23T10:00:00Z","kind":"call","id":"r-1","user":` + hostileJSON + `,"method":"tools/call","name":` + hostileJSON + `,"upstream":"up","decision":"deny","outcome":"invalid","error_code":"GH-Z","duration_ms":3.5,"cursor":"7-2-r"},
	{"time":"2026-11-23T09:00:00Z","kind":"lists","event":"changed","list":"tools","reason":` + hostileJSON + `,"cursor":"5-1-r"}],"next":"5-1-r","partial":"Redis does not answer"}`

// TestCalls: the search is in the URL, and comes back in the form, in the links and in the stream.
func TestCalls(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{"GET /decisions": someCalls})
	w := d.get("/calls?user=a%26b&decision=deny&kind=all&since=1h&name=%22%3E%3Cscript%3E")
	page := w.Body.String()
	for _, want := range []string{
		`value="a&amp;b"`, `<option value="deny" selected>`, `<option value="all" selected>`,
		`value="&#34;&gt;&lt;script&gt;"`,
		`href="/console/calls/r-1"`, `<span class="state bad">denied</span>`, `GH-Z`, "3.5 ms", "lists changed",
		"Redis does not answer",
		`before=5-1-r&amp;decision=deny&amp;kind=all&amp;name=%22%3E%3Cscript%3E&amp;since=1h&amp;user=a%26b`,
		`data-live="/console/calls?after=7-2-r&amp;decision=deny`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	for _, want := range []string{`"User":"a\u0026b"`, `"Name":"\"\u003e\u003cscript\u003e"`,
		`"Kinds":null,"Decisions":["deny"]`, `"Since":"20`, `"Limit":50`} {
		if !strings.Contains(d.api.asked[0], want) {
			t.Errorf("asked %s without %s", d.api.asked[0], want)
		}
	}
	if older := d.get("/calls?before=5-1-r").Body.String(); strings.Contains(older, "data-live=") ||
		!strings.Contains(older, "To the newest") {
		t.Error("an older page is live")
	}
	if got := d.api.asked[1]; !strings.Contains(got, `"Kinds":["call"]`) ||
		!strings.Contains(got, `"Before":{"Micros":5,"Replica":"r","Seq":1},"Limit":50`) {
		t.Errorf("asked %s", got)
	}

	d.api.answers["GET /decisions"] = `{"decisions":[]}`
	if page := d.get("/calls?decision=other").Body.String(); !strings.Contains(page, "Nothing fits.") ||
		!strings.Contains(page, `<option value="other" selected>`) {
		t.Errorf("an empty page:\n%s", page)
	}
	if w := d.get("/calls?since=x&user=bob"); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "want a time such as") || !strings.Contains(w.Body.String(), `value="bob"`) {
		t.Errorf("a search that cannot be made: %d %s", w.Code, w.Body)
	}
}

// TestCallsAreFollowed: the tail goes on after the newest record of the page, with rows that do no harm.
func TestCallsAreFollowed(t *testing.T) {
	one := someCalls[len(`{"decisions":[`):strings.Index(someCalls, "},")] + "}"
	d := newDesk(t, "viewer", map[string]string{
		"GET /decisions/live": `{"missed":1234,"decisions":[` + one + `]}`,
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet,
		"http://127.0.0.1:9090"+Root+"/calls?after=7-2-r&user=bob", nil)
	r.RemoteAddr = "127.0.0.1:1234"
	r.Header.Set("Accept", "text/event-stream")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	got := w.Body.String()
	for _, want := range []string{"event: row\nid: 7-2-r\ndata: <tr>", "1,234 records came faster",
		`href="/console/calls/r-1"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "<script>") || strings.Contains(got, "\u202e") {
		t.Errorf("hostile:\n%s", got)
	}
	for _, want := range []string{`"User":"bob"`, `"Kinds":["call"]`,
		`"After":{"Micros":7,"Replica":"r","Seq":2}`, `"Pace":30`} {
		if len(d.api.asked) != 1 || !strings.Contains(d.api.asked[0], want) {
			t.Errorf("asked %v without %s", d.api.asked, want)
		}
	}
}

// TestPanicInAStream: a bug in the API ends one request, not the process.
func TestPanicInAStream(t *testing.T) {
	d := newDesk(t, "viewer", nil)
	d.deps.API = broken{}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090"+Root+"/calls", nil)
	r.RemoteAddr = "127.0.0.1:1234"
	r.Header.Set("Accept", "text/event-stream")
	defer func() {
		if recover() != "a bug" {
			t.Error("the server does not learn of it")
		}
	}()
	d.ServeHTTP(httptest.NewRecorder(), r)
}

// broken is an API with a bug.
type broken struct{}

func (broken) Ask(*http.Request, admin.Operator, admin.Asked, any, any) error { panic("a bug") }

func (broken) Follow(*http.Request, admin.Operator, admin.LiveQuestion, func([]admin.Decision, int64) error) error {
	panic("a bug")
}

// TestCall: one call shows all that is known of it.
func TestCall(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{"GET /calls/r-1": oneCall})
	w := d.get("/calls/r-1")
	page := w.Body.String()
	for _, want := range []string{
		"2 rounds", "client 2026-07-28, server 2025-11-25", "4bf92f3577b34da6a3ce929d0e0e4736",
		"What would be decided now: deny",
		`<rect class="bar-good" x="500" y="0" width="500"`, `<rect class="bar-bad" x="5" y="0" width="2"`, "not ended",
		`<th colspan="6" scope="rowgroup">Round 2</th>`, "50 %",
		"Between client and gateway", "to the server", "HTTP 200", "only the beginning is kept",
		"3 more messages were not kept",
		"type and size stand in their place", `data-copy="curl"`, "The arguments are not in it",
		`href="/console/calls/..%2fx"`, "GH-Y",
	} {
		if !strings.Contains(strings.ReplaceAll(page, "..%2Fx", "..%2fx"), want) {
			t.Errorf("no %s in it", want)
		}
	}
	for _, bad := range []string{"<script>", "\u202e", "\x00", "\u200b"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
	d.api.answers["GET /calls/r-2"] = `{"id":"r-2","record":{"kind":"call","method":"tools/list"},"layers":[],` +
		`"steps":[],"messages":[],"no_trail":"other replicas have it","similar":[]}`
	if page := d.get("/calls/r-2").Body.String(); strings.Count(page, "other replicas have it") != 2 ||
		strings.Contains(page, "Make it again") {
		t.Errorf("a call without a trail:\n%s", page)
	}
	if w := d.get("/calls/none"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown call: %d", w.Code)
	}
}
