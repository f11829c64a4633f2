package front

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// stateLife is how long a stateless client may take to answer a question.
	stateLife = 10 * time.Minute
	// stateBound distinguishes what is sealed here from anything else.
	stateBound = "requestState, with a Round"
)

// requestState is what is sealed into the requestState of an input_required result. It is
// bound to its user, client and view (2026-07-28 basic/patterns/mrtr).
type requestState struct {
	Round   mcp.Round `json:"round"`
	Method  string    `json:"method"`
	Name    string    `json:"name"`
	Digest  string    `json:"digest"`
	Expires int64     `json:"expires"` // Unix seconds
	// Call is the id of the first call, for records.
	Call string `json:"call,omitempty"`
	// Replica is where the call waits for the answer, "" if it does not wait.
	Replica string `json:"replica,omitempty"`
}

// show turns a question into the result that asks a stateless client. It never shows a kind of
// question that the request did not declare.
func (x *exchange) show(ask *mcp.Ask) (*mcp.Reply, error) {
	if !mcp.CanAsk(x.call.Method) {
		return nil, mcp.Errorf(failure.QuestionImpossible, "the server asked for input, which is not possible in %s", x.call.Method)
	}
	requests := mcp.Raw("{}")
	for _, q := range ask.Requests {
		required, ok := declared(x.call.Caps, q)
		switch {
		case required == nil:
			return nil, mcp.Errorf(failure.QuestionImpossible, "the server asked for something that is not known: %s", q.Method)
		case !ok:
			return nil, refuse.MissingCapability(required)
		}
		var err error
		if q.Params, err = x.rev.Ask(q.Method, q.Params); err != nil {
			return nil, mcp.Errorf(failure.QuestionImpossible, "the client cannot be asked this: %v", err)
		}
		if _, twice := requests.Member(q.Key); twice {
			return nil, mcp.Errorf(failure.QuestionImpossible, "the server asked twice under one key")
		}
		requests = requests.With(q.Key, q.Entry())
	}
	result := mcp.Raw(`{"resultType":"input_required"}`)
	if len(ask.Requests) > 0 {
		result = result.With("inputRequests", requests)
	}
	if len(ask.Round) > 0 || ask.Here { // none is invented if the server gave none
		result = result.With("requestState", mcp.String(x.sealState(ask)))
	} else if len(ask.Requests) == 0 {
		return nil, mcp.Errorf(failure.UpstreamBadAnswer, "the server asked for input but not for what")
	}
	return &mcp.Reply{Result: result.With("_meta", x.f.metaInfo), Ask: ask}, nil
}

func (x *exchange) sealState(ask *mcp.Ask) string {
	limit := askLimit(stateLife, ask.Expires)
	state := requestState{
		Round:   ask.Round,
		Method:  x.call.Method,
		Name:    x.call.Name,
		Digest:  paramsDigest(x.call.Params),
		Expires: time.Now().Add(limit).Unix(),
		Call:    cmp.Or(x.call.Continues, x.call.ID),
	}
	if ask.Here {
		state.Replica = x.f.prefix
		if x.home != nil {
			x.f.waiting.add(x.home, x.waiting(ask.Round), limit)
		}
	}
	plain, _ := json.Marshal(state) // strings and an integer always marshal
	return x.f.deps.Seal.Seal(plain, x.boundTo()...)
}

// waiting names the waiting call that a call goes on with, or becomes.
func (x *exchange) waiting(round mcp.Round) waitingKey {
	return waitingKey{x.call.Session, round.String()}
}

// boundTo returns what the state of a call is bound to.
func (x *exchange) boundTo() []string {
	c := &x.call.Caller
	if c.View == "" {
		return []string{stateBound, c.User(), c.ClientID}
	}
	return []string{stateBound, c.User(), c.ClientID, c.View}
}

// retry reads the answers and the state that a request brings back. Answers without a state
// are passed on as they are: the server may know them by their keys.
func (x *exchange) retry(p params) error {
	if p.answers != nil {
		if err := x.readAnswers(p.answers); err != nil {
			return err
		}
	}
	if p.state == nil {
		return nil
	}
	var state requestState
	plain, err := x.f.deps.Seal.Open(p.state.Text(), x.boundTo()...)
	if err == nil {
		err = json.Unmarshal(plain, &state)
	}
	if err != nil {
		return badState("invalid", "requestState is not one that was given to this client")
	}
	switch {
	case time.Now().Unix() >= state.Expires:
		return badState("expired", "requestState has expired: make the request again without it")
	case state.Method != x.call.Method || state.Name != x.call.Name || state.Digest != paramsDigest(x.call.Params):
		return badState("mismatch", "requestState belongs to a request with other params")
	}
	x.call.Round, x.call.Continues, x.waitsAt = state.Round, state.Call, state.Replica
	return nil
}

func (x *exchange) readAnswers(raw mcp.Raw) error {
	if !raw.IsObject() {
		return refuse.InvalidParams("inputResponses is no object")
	}
	answers := make(map[string]mcp.Raw)
	twice := false
	raw.Each(func(name string, value mcp.Raw) bool {
		key := mcp.Raw(`"` + name + `"`).Text() // names are in their wire form
		_, twice = answers[key]
		answers[key] = value
		return !twice
	})
	if twice {
		return refuse.InvalidParams("inputResponses has a key twice")
	}
	x.call.Answers = answers
	return nil
}

func badState(reason, text string) error {
	return mcp.Errorf(failure.StateInvalid, "Invalid params: %s", text).WithData(mcp.Object("reason", mcp.String(reason)))
}

// paramsDigest is a digest of what a request asks for: its params without what differs between
// the request and its retry. The order of the members and white space do not count, but within
// a member everything except white space does.
func paramsDigest(p mcp.Raw) string {
	var members []string
	p.Each(func(name string, value mcp.Raw) bool {
		switch name {
		case "_meta", "inputResponses", "requestState":
			return true
		}
		var compact bytes.Buffer
		compact.WriteString(name + ":")
		if err := json.Compact(&compact, value); err != nil {
			compact.Write(value) // cannot fail after wire.Scan
		}
		members = append(members, compact.String())
		return true
	})
	slices.Sort(members)
	sum := sha256.Sum256([]byte(strings.Join(members, "\x00")))
	return hex.EncodeToString(sum[:])
}
