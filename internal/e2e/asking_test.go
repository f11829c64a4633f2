package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// inquiry is a question of a scripted server.
type inquiry struct{ Method, Params string }

// inquirer is a scripted server of a revision. Its calls ask the questions that the test
// sets, and return the answers.
type inquirer struct {
	*mcptest.Server
	name     string
	revision *wire.Revision

	mu     sync.Mutex // guards the fields below
	rounds [][]inquiry
}

// newInquirer starts an inquirer. Its tool and its prompt are called do, its resource
// test://do.
func newInquirer(t *testing.T, revision string) *inquirer {
	t.Helper()
	s := &inquirer{Server: scripted(t, revision), revision: wire.Lookup(revision),
		name: "s" + strings.ReplaceAll(revision, "-", "")}
	s.Tools("do")
	s.On("prompts/list", func(c *mcptest.Call) { c.Result(`{"prompts":[{"name":"do"}]}`) })
	s.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[{"name":"do","uri":"test://do"}]}`) })
	for _, method := range askMethods {
		s.On(method, s.serve)
	}
	return s
}

// askMethods are the methods during which a server may ask.
var askMethods = []string{"tools/call", "prompts/get", "resources/read"}

// params returns the params of a client's request of a method.
func (s *inquirer) params(method string) string {
	if method == "resources/read" {
		return fmt.Sprintf(`{"uri":"%s+test://do"}`, s.name)
	}
	return fmt.Sprintf(`{"name":"%s__do"}`, s.name)
}

// asks sets the questions, in rounds.
func (s *inquirer) asks(rounds ...[]inquiry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds = rounds
}

func (s *inquirer) now() [][]inquiry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rounds
}

func (s *inquirer) serve(c *mcptest.Call) { askIn(s.revision, c, s.now()) }

// askIn asks in the way of the server's revision, and returns the answers.
func askIn(revision *wire.Revision, c *mcptest.Call, rounds [][]inquiry) {
	if revision.Stateful {
		askStateful(c, rounds)
	} else {
		askStateless(c, rounds)
	}
}

// askStateful asks during the call.
func askStateful(c *mcptest.Call, rounds [][]inquiry) {
	var all []string
	for _, round := range rounds {
		answers := make([]string, len(round))
		var wg sync.WaitGroup
		for i, q := range round {
			wg.Go(func() {
				m, err := c.Ask(q.Method, q.Params)
				if err != nil {
					return
				}
				if answers[i] = string(m.Result); m.Error != nil {
					answers[i] = fmt.Sprintf(`{"error":%d}`, m.Error.Code)
				}
			})
		}
		wg.Wait()
		all = append(all, answers...)
	}
	finish(c, all)
}

// askStateless asks with the result of the call. Its state is the answers so far.
func askStateless(c *mcptest.Call, rounds [][]inquiry) {
	var state string
	var known []string
	if c.Param("requestState", &state) {
		if err := json.Unmarshal([]byte(state), &known); err != nil {
			c.Error(-32602, "a state that is not ours: "+state)
			return
		}
	}
	at := 0
	for n := 0; at < len(rounds) && n < len(known); at++ {
		n += len(rounds[at])
	}
	var given map[string]json.RawMessage
	if c.Param("inputResponses", &given) && at < len(rounds) && given["q0"] != nil {
		for i := range rounds[at] {
			known = append(known, string(given[fmt.Sprint("q", i)]))
		}
		at++
	}
	if at == len(rounds) {
		finish(c, known)
		return
	}
	var requests []string
	for i, q := range rounds[at] {
		requests = append(requests, fmt.Sprintf(`"q%d":{"method":%q,"params":%s}`, i, q.Method, q.Params))
	}
	text, _ := json.Marshal(known) // strings always marshal
	quoted, _ := json.Marshal(string(text))
	c.Result(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%s},"requestState":%s}`,
		strings.Join(requests, ","), quoted))
}

// finish returns the answers.
func finish(c *mcptest.Call, answers []string) {
	text, _ := json.Marshal(strings.Join(answers, " ")) // a string always marshals
	switch c.Method {
	case "tools/call":
		c.Result(fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text))
	case "prompts/get":
		c.Result(fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%s}}]}`, text))
	default:
		var uri json.RawMessage
		c.Param("uri", &uri)
		c.Result(fmt.Sprintf(`{"contents":[{"uri":%s,"text":%s}]}`, uri, text))
	}
}

// outcome returns the text of an inquirer's result, or what went wrong.
func outcome(m mcptest.Message) string {
	var result struct {
		Content  []struct{ Text string }
		Contents []struct{ Text string }
		Messages []struct{ Content struct{ Text string } }
		IsError  bool
	}
	switch {
	case m.Error != nil:
		return fmt.Sprintf("error %d", m.Error.Code)
	case json.Unmarshal(m.Result, &result) != nil:
	case result.IsError:
		return "isError"
	case len(result.Content) > 0:
		return result.Content[0].Text
	case len(result.Contents) > 0:
		return result.Contents[0].Text
	case len(result.Messages) > 0:
		return result.Messages[0].Content.Text
	}
	return m.Text
}

// converse makes a call and answers the questions in the way of the client's revision.
// answer returns a result, or "" for an error, which only stateful clients can send.
func converse(t *testing.T, c *mcptest.Client, method, params string, answer func(inquiry) string) (m mcptest.Message,
	asked []inquiry) {
	t.Helper()
	if !c.Revision.Stateful {
		return converseStateless(t, c, method, params, answer)
	}
	x, err := c.Send(deadline(t), method, params)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for {
		m, err := x.Next()
		if err != nil {
			t.Fatalf("%s %s: %v after %v", method, params, err, asked)
		}
		if m.IsResponse() {
			return m, asked
		}
		if m.ID == nil {
			continue
		}
		q := inquiry{m.Method, string(m.Params)}
		asked = append(asked, q)
		body := answerTo(m, answer(q))
		ack, err := c.Post(deadline(t), body)
		if err != nil || ack.Status != http.StatusAccepted {
			t.Fatalf("the answer %s: %+v %v", body, ack, err)
		}
		ack.Close()
	}
}

// answerTo returns the answer to a question: a result, or "" for an error.
func answerTo(q mcptest.Message, result string) string {
	if result == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}`, q.ID)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

func converseStateless(t *testing.T, c *mcptest.Client, method, params string,
	answer func(inquiry) string) (m mcptest.Message, asked []inquiry) {
	t.Helper()
	next := params
	for range 20 {
		m, _, err := c.Call(deadline(t), method, next)
		if err != nil {
			t.Fatalf("%s %s: %v after %v", method, next, err, asked)
		}
		var kind string
		if !m.Value("resultType", &kind) || kind != "input_required" {
			return m, asked
		}
		var requests map[string]struct {
			Method string
			Params json.RawMessage
		}
		m.Value("inputRequests", &requests)
		given := map[string]json.RawMessage{}
		for key, r := range requests {
			q := inquiry{r.Method, string(r.Params)}
			asked = append(asked, q)
			if result := answer(q); result != "" {
				given[key] = json.RawMessage(result)
			}
		}
		responses, _ := json.Marshal(given) // it was parsed from JSON
		next = strings.TrimSuffix(params, "}") + `,"inputResponses":` + string(responses)
		var state json.RawMessage
		if m.Value("requestState", &state) {
			next += `,"requestState":` + string(state)
		}
		next += "}"
	}
	t.Fatal("the questions have no end")
	return m, asked
}

// allRevisions starts a gateway with an inquirer of each revision.
func allRevisions(t *testing.T, change func(*gateway.Config)) (url string, servers []*inquirer) {
	t.Helper()
	var cfg gateway.Config
	for _, r := range wire.Revisions() {
		s := newInquirer(t, r.Name)
		servers = append(servers, s)
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: s.name, URL: s.URL})
	}
	if change != nil {
		change(&cfg)
	}
	return start(t, cfg), servers
}

// canElicit reports whether a revision has elicitation with forms, and with URLs.
func canElicit(revision string) (forms, urls bool) {
	return revision >= "2025-06-18", revision >= "2025-11-25"
}
