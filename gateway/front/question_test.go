package front

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// askThis is a tool that asks what its arguments say, and returns the answers.
func askThis(c *mcp.Call) (*mcp.Reply, error) {
	arguments, _ := c.Params.Member("arguments")
	flag := func(name string) bool {
		v, _ := arguments.Member(name)
		return v.IsTrue()
	}
	if c.Answers != nil || c.Refused != nil {
		answers, _ := json.Marshal(c.Answers)
		refused, _ := json.Marshal(c.Refused)
		return result(fmt.Sprintf(`{"content":[],"structuredContent":{"answers":%s,"refused":%s}}`, answers, refused)), nil
	}
	ask := &mcp.Ask{Round: mcp.NewRound(mcp.FrameServer, "s"), Here: flag("here"), Restart: flag("anew")}
	questions, _ := arguments.Member("questions")
	questions.Each(func(key string, q mcp.Raw) bool {
		method, _ := q.Member("method")
		params, _ := q.Member("params")
		ask.Requests = append(ask.Requests, mcp.InputRequest{Key: key, Method: method.Text(), Params: params})
		return true
	})
	if flag("soon") {
		ask.Expires = time.Now().Add(time.Millisecond)
	}
	withdraw, _ := arguments.Member("withdraw")
	withdraw.Elements(func(key mcp.Raw) bool {
		c.Notify(mcp.Event{Method: mcp.NoteCancelled, Params: mcp.Object("key", key)})
		return true
	})
	return &mcp.Reply{Ask: ask}, nil
}

// callThis returns the params of a call of askThis. questions are the members of an object.
func callThis(questions, more string) string {
	return `{"name":"ask-this","arguments":{"questions":{` + questions + `}` + more + `}}`
}

// everything is the capabilities of a client that can be asked anything.
const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`

func elicitForm(properties string) string {
	return `{"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":` + properties + `}}}`
}

const elicitURL = `{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://a.example/x"}}`

// TestQuestionsInTheClientsWords asks clients of each revision the same.
func TestQuestionsInTheClientsWords(t *testing.T) {
	b := newBench(t, Config{})
	const (
		titled  = `{"a":{"type":"string","oneOf":[{"const":"r","title":"Red"}],"default":"r"}}`
		several = `{"a":{"type":"array","items":{"enum":["x"]}}}`
		needed  = several + `,"required":["a"]`
		sample  = `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":[{"type":"text","text":"t"}]}],"maxTokens":1}}`
		audio   = `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"audio","data":"AA","mimeType":"audio/wav"}}],"maxTokens":1}}`
	)
	for _, c := range []struct {
		name, revision, question, here string
		want                           string // the params of the question, or what the server is told without it
	}{
		{"a titled choice", v2511, elicitForm(titled), "true",
			`{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":` + titled + `}}`},
		{"a titled choice", v2506, elicitForm(titled), "true",
			`{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":["r"],"enumNames":["Red"]}}}}`},
		{"several values", v2511, elicitForm(several), "true",
			`{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":` + several + `}}`},
		{"several values that may be left out", v2506, elicitForm(several), "true",
			`{"message":"m","requestedSchema":{"type":"object","properties":{}}}`},
		{"several values, of a server that waits", v2506, elicitForm(needed), "true",
			`"refused":{"q":{"Code":-32602,"Message":"the client cannot be asked this: a form has no choice of several values in this revision"`},
		{"several values, of a server that does not", v2506, elicitForm(needed), "false",
			`"answers":{"q":{"action":"cancel"}}`},
		{"an array of one", v2511, sample, "true",
			`{"messages":[{"role":"user","content":[{"type":"text","text":"t"}]}],"maxTokens":1}`},
		{"an array of one", v2506, sample, "true",
			`{"messages":[{"role":"user","content":{"type":"text","text":"t"}}],"maxTokens":1}`},
		{"an array of one", v2503, sample, "true",
			`{"messages":[{"role":"user","content":{"type":"text","text":"t"}}],"maxTokens":1}`},
		{"audio", v2503, audio, "true",
			`{"messages":[{"role":"user","content":{"type":"audio","data":"AA","mimeType":"audio/wav"}}],"maxTokens":1}`},
		{"audio", v2024, audio, "true", `sampling knows no audio in this revision`},
		{"an array of one", v2607, sample, "true",
			`{"messages":[{"role":"user","content":[{"type":"text","text":"t"}]}],"maxTokens":1}`},
		{"several values", v2607, elicitForm(several), "true",
			`{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":` + several + `}}`},
	} {
		t.Run(c.name+" to "+c.revision, func(t *testing.T) {
			client := b.client(c.revision, everything)
			x, err := client.Send(t.Context(), "tools/call", callThis(`"q":`+c.question, `,"here":`+c.here))
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			m, err := x.Next()
			if err != nil {
				t.Fatal(err)
			}
			got := m.Text
			var asked json.RawMessage
			switch {
			case m.Method != "":
				got = string(m.Params)
			case m.Value("inputRequests|q|params", &asked):
				got = string(asked)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
			if client.Session != "" {
				_, _ = client.Delete(t.Context()) // a user may have only so many
			}
		})
	}
}

func TestIDsOfURLs(t *testing.T) {
	b := newBench(t, Config{})
	withID := strings.Replace(elicitURL, `"url":"h`, `"elicitationId":"ours","url":"h`, 1)
	questions := `"none":` + elicitURL + `,"ours":` + withID
	t.Run("2025-11-25", func(t *testing.T) {
		x, err := b.client(v2511, everything).Send(t.Context(), "tools/call", callThis(questions, ""))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		ids := map[string]bool{}
		for range 2 {
			q, err := x.Until(mcp.MethodElicit)
			var id string
			if err != nil || !q.Param("elicitationId", &id) || id == "" {
				t.Fatalf("asked %s %v", q.Text, err)
			}
			ids[id] = true
		}
		if len(ids) != 2 || !ids["ours"] {
			t.Errorf("the ids are %v", ids)
		}
	})
	t.Run("2026-07-28", func(t *testing.T) {
		m, _, err := b.client(v2607, everything).Call(t.Context(), "tools/call", callThis(questions, ""))
		if err != nil || strings.Contains(m.Text, "elicitationId") || !strings.Contains(m.Text, "a.example") {
			t.Errorf("got %s %v", m.Text, err)
		}
	})
}

func TestCallsThatAreToBeMadeAnew(t *testing.T) {
	b := newBench(t, Config{})
	params := callThis(`"q":`+elicitURL, `,"anew":true`)
	t.Run("2025-11-25", func(t *testing.T) {
		m, before, err := b.client(v2511, everything).Call(t.Context(), "tools/call", params)
		if err != nil || m.Error == nil || m.Error.Code != mcp.CodeURLElicitation || len(before) > 0 {
			t.Fatalf("got %s after %v, %v", m.Text, before, err)
		}
		var data struct {
			Elicitations []struct{ Mode, URL, Message, ElicitationID string }
		}
		if err := json.Unmarshal(m.Error.Data, &data); err != nil || len(data.Elicitations) != 1 {
			t.Fatalf("data %s %v", m.Error.Data, err)
		}
		if e := data.Elicitations[0]; e.Mode != "url" || e.URL != "https://a.example/x" || e.Message != "m" ||
			e.ElicitationID == "" {
			t.Errorf("data %s", m.Error.Data)
		}
	})
	t.Run("2025-11-25 without URLs", func(t *testing.T) {
		m, _, err := b.client(v2511, `{"elicitation":{}}`).Call(t.Context(), "tools/call", params)
		if err != nil || !strings.Contains(m.Text, `"isError":true`) || strings.Contains(m.Text, "a.example") {
			t.Errorf("got %s %v", m.Text, err)
		}
	})
	t.Run("2026-07-28", func(t *testing.T) {
		client := b.client(v2607, everything)
		m, _, err := client.Call(t.Context(), "tools/call", params)
		var state string
		if err != nil || !m.Value("requestState", &state) || !strings.Contains(m.Text, "a.example") {
			t.Fatalf("got %s %v", m.Text, err)
		}
		again := strings.Replace(params, `{"name"`,
			fmt.Sprintf(`{"inputResponses":{"q":{"action":"accept"}},"requestState":%q,"name"`, state), 1)
		m, _, err = client.Call(t.Context(), "tools/call", again)
		if err != nil || !strings.Contains(m.Text, `"answers":{"q":{"action":"accept"}}`) {
			t.Errorf("got %s %v", m.Text, err)
		}
		if got := b.script.last("tools/call"); got.Round.Top().Value != "s" {
			t.Errorf("the round came back as %s", got.Round)
		}
	})
}

// A server withdraws one question before it is put, one while it is open, and one that does
// not exist.
func TestWithdrawnQuestion(t *testing.T) {
	b := newBench(t, Config{})
	client := b.client(v2511, everything)
	x, err := client.Send(t.Context(), "tools/call", callThis(
		`"early":`+elicitForm(`{}`)+`,"a":`+elicitForm(`{}`)+`,"b":`+elicitForm(`{}`), `,"here":true,"withdraw":["early"]`))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var questions []mcptest.Message
	for range 2 {
		q, err := x.Until(mcp.MethodElicit)
		if err != nil {
			t.Fatal(err)
		}
		questions = append(questions, q)
	}
	call := b.script.last("tools/call")
	for _, key := range []string{"unknown", "a"} {
		call.Notify(mcp.Event{Method: mcp.NoteCancelled, Params: mcp.Object("key", mcp.String(key))})
	}
	note, err := x.Until(mcp.NoteCancelled)
	var id json.RawMessage
	if err != nil || !note.Param("requestId", &id) || string(id) != string(questions[0].ID) {
		t.Errorf("got %s %v, want the end of %s", note.Text, err, questions[0].ID)
	}
	for _, q := range questions { // the first one is late
		if err := client.Answer(t.Context(), q.ID, `{"action":"accept"}`); err != nil {
			t.Fatal(err)
		}
	}
	m, err := x.Response()
	if want := `"answers":{"b":{"action":"accept"}},"refused":{}`; err != nil || !strings.Contains(m.Text, want) {
		t.Errorf("got %s %v", m.Text, err)
	}
	if len(x.Before) != 0 {
		t.Errorf("the client also saw %v", x.Before)
	}
}

func TestAnswersAfterTheServersLimit(t *testing.T) {
	b := newBench(t, Config{})
	m, before, err := b.client(v2511, everything).Call(t.Context(), "tools/call",
		callThis(`"q":`+elicitForm(`{}`), `,"here":true,"soon":true`))
	if err != nil || !strings.Contains(m.Text, "did not answer in time") || len(before) != 2 {
		t.Errorf("got %s after %v, %v", m.Text, before, err)
	}
}

func TestRootsAreAskedForOnce(t *testing.T) {
	b := newBench(t, Config{})
	upstreams := &keeping{}
	b.front.endpoint.RootsChanged = upstreams.RootsChanged
	params := callThis(`"q":{"method":"roots/list"}`, "")
	call := func(c *mcptest.Client, answer string) (asked bool) {
		t.Helper()
		x, err := c.Send(t.Context(), "tools/call", params)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		m, err := x.Next()
		if err == nil && m.Method == mcp.MethodRootsList {
			asked = true
			if err := c.Answer(t.Context(), m.ID, answer); err != nil {
				t.Fatal(err)
			}
			m, err = x.Next()
		}
		if err != nil || !strings.Contains(m.Text, "file:///1") {
			t.Errorf("got %s %v", m.Text, err)
		}
		return asked
	}
	c := b.client(v2511, everything)
	if !call(c, `{"roots":[{"uri":"file:///1"}]}`) || call(c, "") || call(c, "") {
		t.Error("the client was not asked once")
	}
	other := b.client(v2511, everything)
	if !call(other, `{"roots":[{"uri":"file:///1"}]}`) {
		t.Error("a client got the roots of another one")
	}
	if _, err := c.Notify(t.Context(), mcp.NoteRootsListChanged, `{}`); err != nil {
		t.Fatal(err)
	}
	if changed := upstreams.changed; len(changed) != 1 || !strings.HasSuffix(changed[0], ":"+c.Session) {
		t.Errorf("told %v", changed)
	}
	if !call(c, `{"roots":[{"uri":"file:///1"},{"uri":"file:///2"}]}`) || call(other, "") {
		t.Error("after a change, who is asked is wrong")
	}
	silent := b.client(v2511, `{"roots":{}}`)
	for range 2 {
		if !call(silent, `{"roots":[{"uri":"file:///1"}]}`) {
			t.Error("a client that does not tell of changes was not asked")
		}
	}
}

// A call can do without roots: if its client cannot be asked now, the call still continues.
func TestNoStreamToAskForRootsOn(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511, everything)
	c.Header = http.Header{"Accept": {"application/json"}}
	m, _, err := c.Call(t.Context(), "tools/call", callThis(`"q":{"method":"roots/list"}`, ""))
	if err != nil || !strings.Contains(m.Text, `"refused":{"q":{"Code":-32603`) {
		t.Errorf("got %s %v", m.Text, err)
	}
}

func TestAToolThatNeedsMore(t *testing.T) {
	b := newBench(t, Config{})
	m, _, err := b.client(v2511).Call(t.Context(), "tools/call", `{"name":"needs-roots"}`)
	if err != nil || !strings.Contains(m.Text, `"isError":true`) || !strings.Contains(m.Text, ": roots") {
		t.Errorf("got %s %v", m.Text, err)
	}
}

// TestDoneAtAURL tells one session that its user is done.
func TestDoneAtAURL(t *testing.T) {
	b := newBench(t, Config{})
	c, other := b.client(v2511, everything), b.client(v2511, everything)
	key := func(c *mcptest.Client) string { return mcp.Caller{}.User() + ":" + c.Session }
	done := func(id string) mcp.Event {
		return mcp.Event{Method: mcp.NoteElicitationComplete, Params: mcp.Object("elicitationId", mcp.String(id))}
	}
	b.front.Sessions.Tell("nobody:x", done("0"))
	for _, client := range []*mcptest.Client{c, other} { // so that there is something to tell it about
		if _, _, err := client.Call(t.Context(), "tools/call", `{"name":"echo"}`); err != nil {
			t.Fatal(err)
		}
	}
	b.front.Sessions.Tell(key(c), done("1")) // no stream is open yet
	b.front.Sessions.Tell(key(c), done("1"))
	streams := map[*mcptest.Client]*mcptest.Exchange{}
	for _, client := range []*mcptest.Client{c, other} {
		x, err := client.Get(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		streams[client] = x
	}
	read := func(client *mcptest.Client) string {
		t.Helper()
		m, err := streams[client].Next()
		if err != nil {
			t.Fatal(err)
		}
		return m.Method + string(m.Params)
	}
	if got, want := read(c), mcp.NoteElicitationComplete+`{"elicitationId":"1"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.front.Sessions.Tell(key(c), done("2"))
	b.front.Sessions.Tell(key(other), done("3"))
	if got := read(c); !strings.Contains(got, `"2"`) {
		t.Errorf("got %s", got)
	}
	if got := read(other); !strings.Contains(got, `"3"`) {
		t.Errorf("the other session got %s", got)
	}
}
