package console

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const somePolicy = `{"replica":"r1","default":"deny","counting":"2026-11-23T10:00:00Z","by_default":7,"last_by_default":"2026-11-23T10:00:00Z","rules":[
	{"name":` + hostileJSON + `,"at":"g.yaml:7","who":"in the group ` + `sales","allow":["tools:crm/*","a","b","c","d","e","f","g"],"when":` + hostileJSON + `,"decided":1200,"last":"2026-11-23T10:00:00Z"},
	{"name":"no exports","at":"g.yaml:9","who":"everybody","deny":["tools:*/export"],"decided":0},
	{"name":"careful","who":"everybody","ask":["tools:crm/drop"],"approvers":"the user bob","decided":2}]}`

// TestPolicy: each rule with its counts; those that never decided are marked, and can be found.
func TestPolicy(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{"GET /policy/rules": somePolicy})
	for _, tt := range []struct {
		query string
		want  []string
		not   []string
	}{
		{"", []string{"g.yaml:7", `<span class="state bad">denied</span>: 7 calls`, `>1,200<`, "and 2 more",
			`<span class="state">never</span>`, "approvers: the user bob", "1 rule has never decided",
			`/console/calls?rule=careful`}, nil},
		{"?never=1", []string{"no exports", "checked"}, []string{"careful", "g.yaml:7"}},
		{"?find=CRM/drop", []string{"careful", `value="CRM/drop"`}, []string{"no exports"}},
		{"?find=nothing", []string{"No rule has “nothing”"}, []string{"careful"}},
	} {
		w := d.get("/policy" + tt.query)
		page := w.Body.String()
		harmless(t, page)
		for _, want := range tt.want {
			if w.Code != http.StatusOK || !strings.Contains(page, want) {
				t.Errorf("%s: %d, no %q in\n%s", tt.query, w.Code, want, page)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(page, not) {
				t.Errorf("%s: there is %q", tt.query, not)
			}
		}
	}
	open := newDesk(t, "viewer", map[string]string{"GET /policy/rules": `{"open":true,"default":"allow","rules":[]}`})
	if page := open.get("/policy").Body.String(); !strings.Contains(page, "everybody may use everything") {
		t.Errorf("without a policy:\n%s", page)
	}
}

// TestManyRules: a page of rules has a bound.
func TestManyRules(t *testing.T) {
	var rules []string
	for i := range 2000 {
		rules = append(rules, fmt.Sprintf(`{"name":"r%d","who":"everybody","allow":["tools:u/x"],"decided":0}`, i))
	}
	d := newDesk(t, "viewer", map[string]string{"GET /policy/rules": `{"default":"deny","rules":[` +
		strings.Join(rules, ",") + `]}`})
	page := d.get("/policy").Body.String()
	if n := strings.Count(page, "<tr>"); n != mostRules+1 ||
		!strings.Contains(page, "2,000 rules fit; the first 500 are shown") {
		t.Errorf("%d rows", n)
	}
}

// TestAsk: a question is in the URL, and its answer on the page.
func TestAsk(t *testing.T) {
	d := newDesk(t, "viewer", map[string]string{
		"GET /policy/rules": somePolicy,
		"POST /explain": `{"effect":"deny","rule":"no exports","rule_at":"g.yaml:9","text":` + hostileJSON +
			`,"hooks":["redacts"],"notes":["not known"]}`,
	})
	page := d.get("/policy?method=tools/call&name=crm/export&user=alice&groups=sales,+ops&args=%7B%22id%22:7%7D").Body.String()
	harmless(t, page)
	for _, want := range []string{
		`<span class="state bad">deny</span>`, `by the rule <strong>no exports</strong> at <code>g.yaml:9</code>`,
		"redacts", "not known",
		`name="groups" value="sales, ops"`, "<option selected>tools/call</option>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if asked := d.api.asked[1]; asked != `POST /explain {"method":"tools/call","name":"crm/export","args":{"id":7},"user":"alice","groups":["sales","ops"]}` {
		t.Errorf("asked %s", asked)
	}
	if page := d.get("/policy?name=x&args=7").Body.String(); !strings.Contains(page, "want a JSON object") {
		t.Error("arguments that are none")
	}
	d.api.status["POST /explain"], d.api.answers["POST /explain"] = http.StatusBadRequest,
		`{"error":{"code":"GH-ADMIN-REQUEST","message":"no such view"}}`
	if w := d.get("/policy?name=x&view=y"); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), `role="alert">No such view.`) {
		t.Errorf("a bad question: %d", w.Code)
	}
}

// TestTryDraft: a draft is sent as text or as a file; the page shows who is affected, or which
// lines are wrong.
func TestTryDraft(t *testing.T) {
	const api = "POST /policy/replay"
	d := newDesk(t, "viewer", map[string]string{
		api: `{"calls":40,"others":1,"first":"2026-11-23T10:00:00Z","last":"2026-11-23T10:01:00Z","same":30,"changed":{"refused":9,"rule":1},"unused":[{"rule":"idle","rule_at":"draft:4"}],"unused_now":null,"notes":["a note"],
			"rows":[{"change":"refused","user":` + hostileJSON + `,"what":"tools:crm/export","was":{"decision":"allow","rule":"sales"},"now":{"decision":"deny","rule":"no exports","rule_at":"draft:3"},"count":9,"first":"2026-11-23T10:00:00Z","last":"2026-11-23T10:01:00Z"},
			        {"change":"untold","user":"bob","what":"x","was":{"decision":"allow"},"reason":"it depends","count":1,"first":"2026-11-23T10:00:00Z","last":"2026-11-23T10:00:00Z"}],"more_rows":3}`,
	})
	if w := d.get("/policy/replay"); w.Code != http.StatusOK || len(d.api.asked) != 0 {
		t.Errorf("the form: %d, asked %v", w.Code, d.api.asked)
	}
	w := d.post("/policy/replay", "draft", "policy: {}\n", "since", "6h")
	page := w.Body.String()
	harmless(t, page)
	for _, want := range []string{
		"<strong>30</strong> of 40 calls", "<strong>1</strong> user is affected",
		`<span class="state bad">9</span> refused, and were not`, "no exports", "it depends", "3 more calls",
		"idle", "a note", `<option value="6h" selected>`, "policy: {}",
	} {
		if w.Code != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("%d, no %q in\n%s", w.Code, want, page)
		}
	}
	if asked := d.api.asked[0]; asked != api+` {"config":"policy: {}","since":"6h"}` && asked != api+
		` {"config":"policy: {}\n","since":"6h"}` {
		t.Errorf("asked %s", asked)
	}

	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "draft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.Write([]byte("policy: {default: perhaps}\n"))
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	d.api.status[api], d.api.answers[api] = http.StatusUnprocessableEntity,
		`{"problems":[{"file":"draft","line":1,"column":10,"message":"want deny or allow"},{"message":"no place"}]}`
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9090"+Root+"/policy/replay", &body)
	r.RemoteAddr = "127.0.0.1:1234"
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w = httptest.NewRecorder()
	d.ServeHTTP(w, r)
	for _, want := range []string{"Line 1: want deny or allow",
		"<pre>policy: {default: perhaps}\n         ^</pre>", "no place"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in\n%s", want, w.Body)
		}
	}
	if w := d.post("/policy/replay", "draft", " "); !strings.Contains(w.Body.String(), "There is no draft") {
		t.Error("an empty draft")
	}
	d.api.status[api], d.api.answers[api] = http.StatusServiceUnavailable,
		`{"error":{"code":"GH-ADMIN-BUSY","message":"another replay runs"}}`
	if w := d.post("/policy/replay", "draft", "x"); !strings.Contains(w.Body.String(), "Another replay runs.") {
		t.Error("a busy replay")
	}
}
