package e2e

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
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

// ledger is kept beside the gateway, by whoever takes part in a call.
type ledger struct {
	mu    sync.Mutex
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
		case "hang and cancel", "hang and leave", "hang and end":
			c.Progress(1)
			c.Hang()
		case "refused result":
			answers("result", func() { c.Text("REFUSED") })
		default:
			answers("result", func() { c.Text("done") })
		}
	}
}

// plans are what happens to calls, and the outcome that the record of the last request has.
var plans = map[string]string{
	"plain": "ok", "tool error": "tool-error", "server error": "error", "cut": "upstream", "no server": "upstream",
	"denied": "invalid", "unknown": "invalid", "refused arguments": "error", "refused result": "error", "limited": "limited",
	"approved": "ok", "not approved": "not-approved",
	"ask": "ok", "ask and decline": "ok", "ask and cancel": "cancelled", "ask and end": "cancelled", "ask and leave": "ask",
	"hang and cancel": "cancelled", "hang and end": "cancelled", "hang and leave": "cancelled",
}

// fits reports whether a client of an era can do what a plan says.
func fits(plan string, modern bool) bool {
	switch plan {
	case "ask and cancel", "ask and end", "hang and cancel", "hang and end":
		return !modern
	case "ask and leave", "hang and leave":
		return modern
	}
	return true
}

// TestRecordsAreTrue makes random calls over all pairs of eras. Each request has one record, and it
// says what the servers and the clients know to have happened.
func TestRecordsAreTrue(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	b := &ledger{deeds: make(map[string]*deed)}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	cfg := gateway.Config{
		Listen: "127.0.0.1:0",
		Audit:  audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: file}}},
		Hooks:  hooks.Config{{Name: "guard", Refuse: &hooks.Refuse{Patterns: []string{"REFUSED", "refused arguments"}}}},
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "all", Allow: []string{"tools:*"}, Record: policy.Recording{Arguments: policy.RecordedArguments{"id"}}},
			{Name: "never", Deny: []string{"tools:*"}, When: `args.plan == "denied"`, Record: policy.Recording{Arguments: policy.RecordedArguments{"id"}}},
			{Name: "ask", Ask: []string{"tools:*"}, When: `args.plan in ["approved", "not approved"]`, Record: policy.Recording{Arguments: policy.RecordedArguments{"id"}}},
		}},
		Limits: []policy.Limit{{Name: "few", What: []string{"tools:*/rare"}, Rate: policy.Rate{Count: 1, Per: 3600e9}}},
	}
	for name, revision := range map[string]string{"old": statefulServer, "new": stateless} {
		s := scripted(t, revision)
		s.Tools("do", "rare")
		s.On("tools/call", b.serve(revision == stateless))
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: name, URL: s.URL})
	}
	gone, err := mcptest.NewMortal("127.0.0.77", mortalServer(t, statefulServer))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "gone", URL: "http://" + gone.Address + "/mcp"})
	log := &mcptest.Log{}
	g, err := gateway.New(gateway.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(log, nil)), Version: "test"})
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
	if m, _, err := opened.Call(deadline(t), "tools/list", "{}"); err != nil || !strings.Contains(string(m.Result), "gone__do") {
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
				if fits(plan, revision == stateless) {
					all = append(all, revision+"|"+name+"|"+plan)
				}
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
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
	case "limited":
		name = server + "__rare"
		b.send(t, c, id+" before", fmt.Sprintf(`{"name":%q,"arguments":{"id":%q,"plan":"plain"}}`, name, id+" before"), "")
	}
	b.send(t, c, id, fmt.Sprintf(`{"name":%q,"arguments":{"id":%q,"plan":%q},"_meta":{"progressToken":1}}`, name, id, plan), plan)
}

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
		case strings.HasSuffix(plan, "leave"):
			x.Close()
		}
		x.Text() // to its end
	}
	asks := plan == "approved" || plan == "not approved" || strings.HasPrefix(plan, "ask")
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
		if plan == "ask and cancel" || plan == "ask and end" {
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
		retry := strings.TrimSuffix(params, "}") + fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}}`, state, strings.Join(given, ","))
		b.send(t, c, id, retry, plan)
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
			if r["executed"] != "no" {
				t.Errorf("executed without a decision: %v", r)
			}
			continue
		}
		found[id] = append(found[id], r)
	}
	undecided := 0
	for id, d := range b.deeds {
		if d.plan == "unknown" || d.plan == "limited" || d.plan == "" && d.got == "error" { // the one before is limited, too
			undecided++
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
		if want := plans[d.plan]; want != "" && last["outcome"] != want {
			t.Errorf("%s: outcome %v, want %s: %v", id, last["outcome"], want, last)
		}
		executed := "unknown"
		switch {
		case d.reached == 0:
			executed = "no"
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
		if cancelled := last["outcome"] == "cancelled"; cancelled != (last["reason"] != nil) {
			t.Errorf("%s: the reason is %v", id, last["reason"])
		}
		if said := last["server_error"]; d.answered == "isError" && said != "disk full" || d.answered == "error" && said != "row locked" {
			t.Errorf("%s: the server's error is %v", id, said)
		}
	}
	if lost != undecided {
		t.Errorf("%d records without a decision, want %d", lost, undecided)
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
