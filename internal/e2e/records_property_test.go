package e2e

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// deed is what the books of the scripted servers and clients know of one call.
type deed struct {
	plan     string
	reached  int    // how often a server got it
	answered string // what the server has answered: result, isError, error; "" for nothing
	requests int    // how many requests of the client it took
	got      string // what the client got in the end: result, isError, error, asked; "" for nothing
}

// ledger is kept beside the gateway, by all who take part in a call.
type ledger struct {
	log   *mcptest.Log     // of the gateway
	mu    sync.Mutex       // guards the fields below
	deeds map[string]*deed // by the argument id
}

func (b *ledger) note(id string, do func(*deed)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deeds[id] == nil {
		b.deeds[id] = &deed{}
	}
	do(b.deeds[id])
}

// serve is the tool of a scripted server. It does what its arguments say, and keeps its book.
func (b *ledger) serve(modern bool) func(*mcptest.Call) {
	return func(c *mcptest.Call) {
		var id, plan string
		c.Param("arguments|id", &id)
		c.Param("arguments|plan", &plan)
		b.note(id, func(d *deed) { d.reached++ })
		answers := func(how string, answer func()) {
			b.note(id, func(d *deed) { d.answered = how })
			answer()
		}
		if strings.HasPrefix(plan, "ask") {
			var given json.RawMessage
			switch {
			case !modern:
				if _, err := c.Ask(mcptest.Elicitation, mcptest.Question(mcptest.Elicitation, id)); err != nil {
					return
				}
			case !c.Param("inputResponses", &given):
				c.Result(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"q":{"method":%q,"params":%s}},"requestState":"s"}`,
					mcptest.Elicitation, mcptest.Question(mcptest.Elicitation, id)))
				return
			}
		}
		switch plan {
		case "tool error":
			answers("isError", func() { c.Result(`{"content":[{"type":"text","text":"disk full"}],"isError":true}`) })
		case "server error":
			answers("error", func() { c.Error(-32000, "row locked") })
		case "cut":
			c.Die()
		case "cut late":
			c.Progress(1)
			c.Die()
		case "half":
			c.Garbage(`{"jsonrpc":"2.0","id":1,"result":{"content":[`)
		case "status":
			c.Status(http.StatusInternalServerError, "text/plain", "out of memory")
		case "hang and cancel", "hang and leave", "hang and end", "hang and abandon", "timeout":
			c.Progress(1)
			c.Hang()
		case "refused result":
			answers("result", func() { c.Text("REFUSED") })
		default:
			answers("result", func() { c.Text("done") })
		}
	}
}

// plans are what happens to calls, and the outcome and the error that the record of the last request has.
var plans = map[string]string{
	"plain": "ok ", "approved": "ok ", "ask": "ok ", "ask and decline": "ok ", "tool error": "tool-error ",
	// Failed at each hop.
	"server error": "error GH-UPSTREAM-ERROR", "no server": "upstream GH-UPSTREAM-DOWN",
	"cut": "upstream GH-UPSTREAM-CUT", "cut late": "upstream GH-UPSTREAM-CUT", "half": "upstream GH-UPSTREAM-BAD-ANSWER",
	"status": "upstream GH-UPSTREAM-STATUS", "timeout": "upstream GH-UPSTREAM-TIMEOUT",
	// Refused at each stage.
	"no object": "invalid GH-INVALID-PARAMS", "limited": "limited GH-RATE-LIMITED", "unknown": "invalid GH-NOT-FOUND",
	"denied": "invalid GH-ARGUMENTS-DENIED", "not approved": "not-approved GH-APPROVAL-DECLINED",
	"refused arguments": "error GH-HOOK-REFUSED", "refused result": "error GH-HOOK-REFUSED",
	"not pinned": "invalid GH-NOT-FOUND", "no account": "sign-in-needed GH-SIGN-IN-NEEDED",
	"no header": "invalid GH-HEADER-MISMATCH",
	// Ended by the client.
	"ask and cancel": "cancelled ", "ask and end": "cancelled ", "ask and leave": "ask ",
	"hang and cancel": "cancelled ", "hang and end": "cancelled ", "hang and leave": "cancelled ",
	// The client is not heard of again, or answers once more.
	"ask and abandon": "ok ", "hang and abandon": "upstream GH-UPSTREAM-TIMEOUT",
	"approval and abandon": "not-approved GH-APPROVAL-DECLINED", "ask again": "invalid GH-STATE-INVALID",
}

// approvals are what records say of answers to the gateway's own question.
var approvals = map[string]any{"approved": "approved", "approval and abandon": "unanswered"}

// undecided are the plans whose calls policy does not get, or does not know.
var undecided = []string{"unknown", "limited", "no object", "not pinned"}

// fits reports whether a client of an era can do at a server of an era what a plan says.
func fits(plan string, modern, modernServer bool) bool {
	switch plan {
	case "ask and cancel", "ask and end", "hang and cancel", "hang and end":
		return !modern
	case "ask and abandon", "hang and abandon", "approval and abandon":
		return !modern
	case "ask and leave", "hang and leave", "no header":
		return modern
	case "ask again":
		return modern && !modernServer
	}
	return true
}

// TestRecordsAreTrue makes random calls over all pairs of eras. Each request has one record, and it
// says what the servers and the clients know to have happened. With -short there are a third of them.
func TestRecordsAreTrue(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	b := &ledger{deeds: make(map[string]*deed), log: &mcptest.Log{}}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	direct := []string{"tools:old/*", "tools:new/*"} // the schemas of others may not be known
	recorded := policy.Recording{Arguments: policy.RecordedArguments{"id"}}
	asks := `args.plan in ["approved", "not approved", "approval and abandon"]`
	cfg := gateway.Config{
		Listen: "127.0.0.79:0",
		Audit:  audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: file}}},
		Hooks:  hooks.Config{{Name: "guard", Refuse: &hooks.Refuse{Patterns: []string{"REFUSED", "refused arguments"}}}},
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "all", Allow: []string{"tools:*"}, Record: recorded},
			{Name: "never", Deny: direct, When: `args.plan == "denied"`, Record: recorded},
			{Name: "ask", Ask: direct, When: asks, Record: recorded},
		}},
		Limits:  []policy.Limit{{Name: "few", What: []string{"tools:*/rare"}, Rate: policy.Rate{Count: 1, Per: 3600e9}}},
		Pinning: pinning.Config{Mode: pinning.Off, File: filepath.Join(t.TempDir(), "gatehouse.lock")},
		State:   config.State{Directory: t.TempDir()},
		HTTP:    front.Config{AskTimeout: 5 * time.Second},
	}
	if err := (pin.Lock{}).Write(cfg.Pinning.File); err != nil {
		t.Fatal(err)
	}
	for name, revision := range map[string]string{"old": statefulServer, "new": stateless} {
		s := scripted(t, revision)
		s.On("tools/list", func(c *mcptest.Call) {
			c.Result(`{"tools":[{"name":"do","inputSchema":{"type":"object"}},{"name":"rare","inputSchema":{"type":"object"}},
				{"name":"mirrors","inputSchema":{"type":"object","properties":{"id":{"type":"string","x-mcp-header":"Id"}}}}]}`)
		})
		s.On("tools/call", b.serve(revision == stateless))
		mine := mcptest.NewAccounts(s)
		t.Cleanup(mine.Close)
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: name, URL: s.URL},
			upstream.Config{Name: name + "-brief", URL: s.URL, Timeout: upstream.Timeout{Call: 5 * time.Second}},
			upstream.Config{Name: name + "-pinned", URL: s.URL, Pinning: upstream.Pinning{Mode: pinning.Block}},
			upstream.Config{Name: name + "-mine", URL: mine.URL, Auth: outbound.Config{Type: outbound.TypeUserOAuth}})
	}
	gone, err := mcptest.NewMortal("127.0.0.77", mortalServer(t, statefulServer))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "gone", URL: "http://" + gone.Address + "/mcp"})
	g, err := gateway.New(gateway.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(b.log, nil)), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			if err := g.Stop(deadline(t)); err != nil {
				t.Error(err)
			}
		}
	}
	defer stop()
	if err := g.WaitReady(deadline(t)); err != nil {
		t.Fatal(err)
	}
	opened := rawWith(t, g.URL(), statefulClient, `{"elicitation":{}}`)
	if m, _, err := opened.Call(deadline(t), "tools/list", "{}"); err != nil ||
		!strings.Contains(string(m.Result), "gone__do") {
		t.Fatalf("the lists: %s %v", m.Text, err)
	}
	gone.Kill()
	names := make([]string, 0, len(plans))
	for plan := range plans {
		names = append(names, plan)
	}
	slices.Sort(names)
	var all []string
	for _, revision := range []string{statefulClient, stateless} {
		for _, name := range []string{"old", "new"} {
			for _, plan := range append(slices.Clone(names), names[random.IntN(len(names))], names[random.IntN(len(names))]) {
				if fits(plan, revision == stateless, name == "new") {
					all = append(all, revision+"|"+name+"|"+plan)
				}
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if testing.Short() {
		all = all[:len(all)/3]
	}
	for i, what := range all {
		part := strings.Split(what, "|")
		b.make(t, g.URL(), fmt.Sprintf("%d %s", i, what), part[0], part[1], part[2])
	}
	stop()
	b.compare(t, file)
}

// make makes a call as a client of a revision, and keeps the client's book.
func (b *ledger) make(t *testing.T, url, id, revision, server, plan string) {
	t.Helper()
	b.note(id, func(d *deed) { d.plan = plan })
	c := rawWith(t, url, revision, `{"elicitation":{}}`)
	name := server + "__do"
	switch plan {
	case "no server":
		name = "gone__do"
	case "unknown":
		name = server + "__nothing"
	case "timeout", "hang and abandon":
		name = server + "-brief__do"
	case "not pinned":
		name = server + "-pinned__do"
	case "no account":
		name = server + "-mine__do"
	case "no header":
		name = server + "__mirrors"
	case "no object":
		b.send(t, c, id, fmt.Sprintf(`{"name":%q,"arguments":[%q]}`, name, id), plan)
		return
	case "limited":
		name = server + "__rare"
		b.send(t, c, id+" before", fmt.Sprintf(`{"name":%q,"arguments":{"id":%q,"plan":"plain"}}`, name, id+" before"), "")
	}
	b.send(t, c, id, fmt.Sprintf(`{"name":%q,"arguments":{"id":%q,"plan":%q},"_meta":{"progressToken":1}}`, name,
		id, plan), plan)
}

// ofTool stands in the log's line of each call of a tool.
const ofTool = "msg=call call="

// send sends a call, and does what a plan says while it is under way.
func (b *ledger) send(t *testing.T, c *mcptest.Client, id, params, plan string) {
	t.Helper()
	b.note(id, func(d *deed) { d.requests++ })
	x, err := c.SendID(deadline(t), `"x"`, "tools/call", params)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	answer := `{"action":"accept","content":{"a":"b","approve":true}}`
	if plan == "not approved" || plan == "ask and decline" {
		answer = `{"action":"decline"}`
	}
	end := func() {
		switch {
		case strings.HasSuffix(plan, "cancel"):
			_, _ = c.Notify(deadline(t), "notifications/cancelled", `{"requestId":"x"}`)
		case strings.HasSuffix(plan, "end"):
			_, _ = c.Delete(deadline(t))
		case strings.HasSuffix(plan, "leave"), strings.HasSuffix(plan, "abandon"):
			before := b.log.Count(ofTool)
			x.Close()
			if err := b.log.Await(deadline(t), ofTool, before+1); err != nil {
				t.Errorf("%s: the call does not end: %v", id, err)
			}
			return
		}
		x.Text() // to its end
	}
	asks := strings.HasPrefix(plan, "approv") || plan == "not approved" || strings.HasPrefix(plan, "ask")
	switch {
	case strings.HasPrefix(plan, "hang"):
		if _, err := x.Until("notifications/progress"); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		end()
		return
	case asks && c.Revision.Stateful:
		m, err := x.Until(mcptest.Elicitation)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if plan == "ask and cancel" || plan == "ask and end" || strings.HasSuffix(plan, "abandon") {
			end()
			return
		}
		if err := c.Answer(deadline(t), m.ID, answer); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	m, err := x.Response()
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	var isError bool
	var kind, state string
	m.Value("isError", &isError)
	m.Value("resultType", &kind)
	m.Value("requestState", &state)
	switch {
	case m.Error != nil:
		b.note(id, func(d *deed) { d.got = "error" })
	case kind == "input_required":
		b.note(id, func(d *deed) { d.got = "asked" })
		if plan == "ask and leave" {
			return
		}
		var asked map[string]json.RawMessage
		m.Value("inputRequests", &asked)
		given := make([]string, 0, len(asked))
		for key := range asked {
			given = append(given, fmt.Sprintf("%q:%s", key, answer))
		}
		retry := strings.TrimSuffix(params, "}") + fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}}`, state,
			strings.Join(given, ","))
		b.send(t, c, id, retry, plan)
		if plan == "ask again" {
			b.send(t, c, id, retry, plan)
		}
	case isError:
		b.note(id, func(d *deed) { d.got = "isError" })
	default:
		b.note(id, func(d *deed) { d.got = "result" })
	}
}

// compare compares the records with the books.
func (b *ledger) compare(t *testing.T, file string) {
	t.Helper()
	records, err := mcptest.Records(file, "call")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]map[string]any)
	lost := 0
	for _, r := range records {
		if r["method"] != "tools/call" {
			continue
		}
		arguments, _ := r["arguments"].(map[string]any)
		id, _ := arguments["id"].(string)
		if id == "" { // no rule has decided: what is unknown or limited
			lost++
			if r["executed"] != "no" && r["error_code"] != "GH-INVALID-PARAMS" {
				t.Errorf("executed without a decision: %v", r)
			}
			continue
		}
		found[id] = append(found[id], r)
	}
	unseen := 0
	for id, d := range b.deeds {
		if strings.Contains(id, stateless) && d.plan == "no object" {
			continue // it becomes no call
		}
		if slices.Contains(undecided, d.plan) || d.plan == "" && d.got == "error" { // the one before is limited, too
			unseen++
			if d.reached != 0 || d.got != "error" {
				t.Errorf("%s: %+v", id, d)
			}
			continue
		}
		if len(found[id]) != d.requests {
			t.Errorf("%s: %d records of %d requests: %v", id, len(found[id]), d.requests, found[id])
			continue
		}
		last := found[id][len(found[id])-1]
		code, _ := last["error_code"].(string)
		if want, ended := plans[d.plan], fmt.Sprint(last["outcome"], " ", code); want != "" && ended != want {
			t.Errorf("%s: it ended with %s, want %s: %v", id, ended, want, last)
		}
		if first := found[id][0]; d.requests > 1 && last["continues"] != first["id"] || first["continues"] != nil {
			t.Errorf("%s: the requests are not linked: %v", id, found[id])
		}
		executed := "unknown"
		switch {
		case d.reached == 0:
			executed = "no"
		case d.plan == "ask again": // its last answer came too late to matter
		case d.answered == "result" || d.answered == "isError":
			executed = "yes"
		}
		if last["executed"] != executed {
			t.Errorf("%s: executed %v, want %s as the server knows: %+v, %v", id, last["executed"], executed, d, last)
		}
		for _, r := range found[id] {
			if r["upstream"] == nil || r["decision"] == nil || r["rule"] == nil {
				t.Errorf("%s: no server or decision: %v", id, r)
			}
		}
		if said := last["approval"]; strings.HasPrefix(d.plan, "approv") && said != approvals[d.plan] {
			t.Errorf("%s: the approval is %v: %v", id, said, last)
		}
		if cancelled := last["outcome"] == "cancelled"; cancelled != (last["reason"] != nil) {
			t.Errorf("%s: the reason is %v", id, last["reason"])
		}
		if said := last["server_error"]; d.answered == "isError" && said != "disk full" ||
			d.answered == "error" && said != "row locked" {
			t.Errorf("%s: the server's error is %v", id, said)
		}
	}
	if lost != unseen {
		t.Errorf("%d records without a decision, want %d", lost, unseen)
	}
}

// mortalServer is a scripted server of a revision with the tool do.
func mortalServer(t *testing.T, revision string) *mcptest.Server {
	t.Helper()
	s := mcptest.NewServer(wire.Lookup(revision))
	t.Cleanup(s.Close)
	s.Tools("do")
	return s
}
