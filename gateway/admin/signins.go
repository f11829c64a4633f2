package admin

import (
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// mostFailures bounds the kinds of failures: clients choose their own names.
const mostFailures = 200

// SignIns is the answer of /signins: failed sign-ins.
type SignIns struct {
	// Failures are counted by client and reason, the latest first; LeftOut counts the others.
	Failures []SignInFailure `json:"failures"`
	LeftOut  int             `json:"left_out,omitempty"`
	Last     []Decision      `json:"last"` // newest first
	// Partial is the reason why records of other replicas may be missing, "" for none.
	Partial string `json:"partial,omitempty"`
}

// SignInFailure counts the failed sign-ins with a client for one reason.
type SignInFailure struct {
	// Client is the id of the OAuth client, "" while it is unknown: a refused token proves nothing.
	// Agent is the name that the client gives itself.
	Client string `json:"client,omitempty"`
	Agent  string `json:"agent,omitempty"`
	// Upstream is the server at which users wanted to sign in, "" for the gateway.
	Upstream string `json:"upstream,omitempty"`
	// Event is the event, as in records. Remedy is what to do, "" if that is unknown.
	Event  string    `json:"event"`
	Reason string    `json:"reason"`
	Remedy string    `json:"remedy,omitempty"`
	Count  int64     `json:"count"`
	Last   time.Time `json:"last"`
}

// signInFailed reports whether a record is of a token that was refused, or of a person who could not
// sign in at the gateway, at a server or at the console.
func signInFailed(r *record.Record) bool {
	return r.Event == "sign-in refused" || r.Kind == record.KindSignIn && strings.HasSuffix(r.Event, "refused")
}

// failures counts records, newest first, by client and reason.
func failures(items []*recent.Item) (all []SignInFailure, leftOut int) {
	at := make(map[SignInFailure]int)
	for _, item := range items {
		r := item.Record
		what := SignInFailure{Client: r.Client, Agent: r.Agent, Upstream: r.Upstream, Event: r.Event, Reason: r.Reason}
		i, known := at[what]
		if !known {
			i = len(all)
			at[what] = i
			what.Remedy, what.Last = auth.Remedy(r.Reason), r.Time
			all = append(all, what)
		}
		all[i].Count += max(r.Count, 1)
	}
	shown := all[:min(len(all), mostFailures)]
	return shown, len(all) - len(shown)
}

// PastedToken is a token that an operator asks about.
type PastedToken struct {
	// Text may have white space around the token, and Authorization: and its scheme in front.
	Text string `json:"token"`
	// View is the view of the endpoint that would get the token, "" for the gateway's own.
	View string `json:"view,omitempty"`
}

// Examined is the judgement of a gateway on a token.
type Examined struct {
	auth.Examination
	// Rules are those of policy that apply to the caller, for any target.
	Rules []string `json:"rules,omitempty"`
}
