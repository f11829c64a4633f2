package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// mostFailures bounds the kinds of failures: clients choose what they call themselves.
const mostFailures = 200

// SignIns is the answer of /signins: sign-ins that failed.
type SignIns struct {
	// Failures are counted by client and reason, the latest first; LeftOut is how many more there are.
	Failures []SignInFailure `json:"failures"`
	LeftOut  int             `json:"left_out,omitempty"`
	// Last are the last ones, newest first: see Decision.
	Last []mcp.Raw `json:"last"`
	// Partial is why records of other replicas may be missing, "" if they are not.
	Partial string `json:"partial,omitempty"`
}

// SignInFailure is how often sign-ins with a client failed for a reason.
type SignInFailure struct {
	// Client is the id of the OAuth client, "" while nobody knows it: a refused token proves nothing.
	// Agent is what the client calls itself.
	Client string `json:"client,omitempty"`
	Agent  string `json:"agent,omitempty"`
	// Upstream is the server at which users wanted to sign in, "" for the gateway.
	Upstream string `json:"upstream,omitempty"`
	// Event is what happened, as in records. Remedy is what to do, "" if nothing is known.
	Event  string    `json:"event"`
	Reason string    `json:"reason"`
	Remedy string    `json:"remedy,omitempty"`
	Count  int64     `json:"count"`
	Last   time.Time `json:"last"`
}

// signInFailed reports whether a record is of a token that was refused, or of a person who could not
// sign in at the gateway, at a server or at the console.
func signInFailed(e *record.Entry) bool {
	return e.Event == "sign-in refused" || e.Kind == record.KindSignIn && strings.HasSuffix(e.Event, "refused")
}

// failures counts records, newest first, by client and reason.
func failures(items []*recent.Item) (all []SignInFailure, leftOut int) {
	at := make(map[SignInFailure]int)
	for _, item := range items {
		e := item.Entry()
		what := SignInFailure{Client: e.Client, Agent: e.Agent, Upstream: e.Upstream, Event: e.Event, Reason: e.Reason}
		i, known := at[what]
		if !known {
			i = len(all)
			at[what] = i
			what.Remedy, what.Last = auth.Remedy(e.Reason), e.Time
			all = append(all, what)
		}
		all[i].Count += max(e.Count, 1)
	}
	shown := all[:min(len(all), mostFailures)]
	return shown, len(all) - len(shown)
}

const (
	// mostExams bounds how many tokens are examined at a time: issuers may be asked about each.
	mostExams = 4
	// longestExam bounds the time of one.
	longestExam = 25 * time.Second
)

// PastedToken is a token that somebody asks about.
type PastedToken struct {
	// Token may have white space around it, and Authorization: and its scheme in front.
	Token string `json:"token"`
	// View is the view at whose endpoint the token would come, "" for the gateway's own.
	View string `json:"view,omitempty"`
}

// Examined is what a gateway thinks of a token.
type Examined struct {
	auth.Examination
	// Rules are those of policy that are for the caller, with whatever they call.
	Rules []string `json:"rules,omitempty"`
}

// examine says why a token is or would be refused. Whoever asks holds somebody's token, so it is for
// operators. No part of the token is recorded, logged or answered.
func examine(a *API, x *exchange) error {
	var p PastedToken
	if err := x.read(mostBody, &p); err != nil {
		return err
	}
	token := auth.Pasted(p.Token)
	if token == "" {
		return refusal(http.StatusBadRequest, failure.AdminRequest, "token: is needed: the access token or API key that a client sends")
	}
	select {
	case a.exams <- struct{}{}:
		defer func() { <-a.exams }()
	default:
		return refusal(http.StatusServiceUnavailable, failure.AdminBusy, fmt.Sprintf("%d tokens are being tested: try again later", mostExams))
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), longestExam)
	defer cancel()
	e, err := a.deps.Examine(ctx, token, p.View)
	if err != nil {
		return badQuestion(err)
	}
	result := "accepted"
	if !e.Good {
		result = e.Reason
	}
	a.deps.Record(&record.Record{Kind: record.KindAdmin, Event: "token tested", User: x.who.Name, View: p.View, Reason: result})
	a.deps.Log.Info("an operator acted", "event", "token tested", "operator", x.who.Name, "view", p.View)
	return x.answer(e)
}
