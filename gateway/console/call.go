package console

import (
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// callPage shows one call: its caller, the decisions and their reasons, how it spent its time, and
// the messages at both edges.
var callPage = page{path: "/calls/{id}", title: "Call", look: "call", role: admin.RoleViewer, show: showCall}

type callData struct {
	admin.Call
	Rounds int    // of its steps
	More   string // the URL of more similar ones
	Steps  []stepRow
	Total  time.Duration // to the end of the last step
	Edges  []edge
}

// stepRow is a step with its bar, in thousandths of the whole width.
type stepRow struct {
	admin.Step
	Name, Does      string
	Start, Took     time.Duration
	At, Width       int
	Bar             string // the class of the bar
	Within          string // the step that it is a part of, "" for none
	FirstOfItsRound bool
}

// edge holds the messages at one edge of the gateway.
type edge struct {
	Title, Other string // Other is the peer of the gateway there
	Speaks       string // the revision
	Messages     []admin.Message
}

func showCall(v *visit) (any, error) {
	call, err := ask(v, admin.GetCall, v.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	d := callData{Call: call}
	d.More = query(Root+"/calls", "upstream", d.Record.Upstream, "name", d.Record.Name)
	d.Steps, d.Total = stepRows(d.Call.Steps)
	for _, s := range d.Steps {
		d.Rounds = max(d.Rounds, s.Round)
	}
	client := edge{Title: "Between client and gateway", Other: "client", Speaks: d.Record.Revision}
	server := edge{Title: "Between gateway and server", Other: "server", Speaks: d.Record.UpstreamRevision}
	for _, m := range d.Messages {
		if m.Edge == server.Other {
			server.Messages = append(server.Messages, m)
		} else {
			client.Messages = append(client.Messages, m)
		}
	}
	d.Edges = []edge{client, server}
	return d, nil
}

// whole is the width of a bar for all of the time.
const whole = 1000

// stepRows lays the steps out along the time of the call.
func stepRows(steps []admin.Step) (rows []stepRow, total time.Duration) {
	for _, s := range steps {
		total = max(total, ofMillis(s.Start+s.Duration))
	}
	round := 0
	var around stepRow // the last one that may have parts
	for _, s := range steps {
		name, does := stepWords(s)
		r := stepRow{Step: s, Name: name, Does: does, Start: ofMillis(s.Start), Took: ofMillis(s.Duration), Bar: "bar-plain",
			FirstOfItsRound: s.Round != round}
		round = s.Round
		if total > 0 {
			r.At = min(int(r.Start*whole/total), whole-2)
			r.Width = min(max(int(r.Took*whole/total), 2), whole-r.At)
		}
		switch {
		case s.Step == "user" || s.Step == "approval" || s.Step == "queue":
			r.Bar = "bar-warn" // waiting
		case s.Result == "deny" || s.Result == "unknown" || len(s.Result) > 3 && s.Result[:3] == "GH-":
			r.Bar = "bar-bad"
		case s.Step == "server":
			r.Bar = "bar-good"
		}
		if s.Step == "server" {
			around = r
		} else if around.Name != "" && r.Round == around.Round && r.Start+r.Took <= around.Start+around.Took {
			r.Within = around.Name
		}
		rows = append(rows, r)
	}
	return rows, total
}

// stepWords returns the name of a step, and what the gateway does in it.
func stepWords(s admin.Step) (name, does string) {
	switch s.Step {
	case "identity":
		return "Identity", "who is calling: the token is verified"
	case "front":
		return "Reading", "the request is read and checked"
	case "limits":
		return "Limits", "rate limits"
	case "policy":
		return "Policy", "what the caller may do"
	case "approval":
		return "Approval", "waiting for somebody else to approve"
	case "hook":
		return "Hook " + s.Of, "a guardrail looks at the content"
	case "queue":
		return "Queue", "waiting for a place at " + s.Of
	case "session":
		return "Connection", "opening a session or a connection at " + s.Of
	case "server":
		return "Server " + s.Of, "the server works"
	case "credential":
		return "Credential", "the credential for the server"
	case "user":
		return "Client", "waiting for the client's answers"
	case "answer":
		return "Answer", "written to the client"
	}
	return s.Step, s.Of
}

// ofMillis returns a number of milliseconds of the API as a duration.
func ofMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// percent returns a share of a time, such as "12 %".
func percent(part, of time.Duration) string {
	if of <= 0 {
		return ""
	}
	return strconv.Itoa(int(part*100/of)) + " %"
}
