package exchange

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// stateLife limits the time a stateless client takes to answer a question.
	stateLife = 10 * time.Minute
	// stateBound distinguishes a sealed requestState from anything else that is sealed.
	stateBound = "requestState, with a Round"
)

// requestState is the content that is sealed in the requestState of an input_required result. It is
// bound to its user, client and view (2026-07-28 basic/patterns/mrtr).
type requestState struct {
	Round   mcp.Round `json:"round"`
	Method  string    `json:"method"`
	Name    string    `json:"name"`
	Digest  string    `json:"digest"`
	Expires int64     `json:"expires"` // Unix seconds
	// Call is the id of the first call, for records.
	Call string `json:"call,omitempty"`
	// Replica is the one at which the call waits for the answer, "" if it does not wait.
	Replica string `json:"replica,omitempty"`
}

// show turns a question into the result that asks a stateless client. It never shows a kind of
// question that the request did not declare.
func (x *Exchange) show(ask *mcp.Ask) (*mcp.Reply, error) {
	if !mcp.CanAsk(x.Call.Method) {
		return nil, mcp.Errorf(failure.QuestionImpossible,
			"the server asked for input, which is not possible in %s", x.Call.Method)
	}
	requests := mcp.Raw("{}")
	for _, q := range ask.Requests {
		required, ok := declared(x.Call.Caps, q)
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
	return &mcp.Reply{Result: result.With("_meta", x.e.metaInfo), Ask: ask}, nil
}

func (x *Exchange) sealState(ask *mcp.Ask) string {
	limit := askLimit(stateLife, ask.Expires)
	state := requestState{
		Round:   ask.Round,
		Method:  x.Call.Method,
		Name:    x.Call.Name,
		Digest:  paramsDigest(x.Call.Params),
		Expires: time.Now().Add(limit).Unix(),
		Call:    cmp.Or(x.Call.Continues, x.Call.ID),
	}
	if ask.Here {
		state.Replica = x.e.Replica
		if x.Home != nil {
			x.e.waiting.add(x.Home, x.waiting(ask.Round), limit)
		}
	}
	plain, _ := json.Marshal(state) // strings and an integer always marshal
	return x.e.Seal.Seal(plain, x.boundTo()...)
}

// waiting names the waiting call that a call goes on with, or becomes.
func (x *Exchange) waiting(round mcp.Round) waitingKey {
	return waitingKey{x.Call.Session, round.String()}
}

// boundTo returns the values that the state of a call is bound to.
func (x *Exchange) boundTo() []string {
	c := &x.Call.Caller
	if c.View == "" {
		return []string{stateBound, c.User(), c.ClientID}
	}
	return []string{stateBound, c.User(), c.ClientID, c.View}
}

// Retry reads the answers and the state that a request brings back. Answers without a state
// are passed on as they are: the server may know them by their keys.
func (x *Exchange) Retry(answers, sealed mcp.Raw) error {
	if answers != nil {
		if err := x.ReadAnswers(answers); err != nil {
			return err
		}
	}
	if sealed == nil {
		return nil
	}
	var state requestState
	plain, err := x.e.Seal.Open(sealed.Text(), x.boundTo()...)
	if err == nil {
		err = json.Unmarshal(plain, &state)
	}
	if err != nil {
		return badState("invalid", "requestState is not one that was given to this client")
	}
	switch {
	case time.Now().Unix() >= state.Expires:
		return badState("expired", "requestState has expired: make the request again without it")
	case state.Method != x.Call.Method || state.Name != x.Call.Name || state.Digest != paramsDigest(x.Call.Params):
		return badState("mismatch", "requestState belongs to a request with other params")
	}
	x.Call.Round, x.Call.Continues, x.WaitsAt = state.Round, state.Call, state.Replica
	return nil
}

// ReadAnswers reads the answers in a request by the keys of their questions.
func (x *Exchange) ReadAnswers(raw mcp.Raw) error {
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
	x.Call.Answers = answers
	return nil
}

func badState(reason, text string) error {
	return mcp.Errorf(failure.StateInvalid, "Invalid params: %s", text).WithData(mcp.Object("reason", mcp.String(reason)))
}

// paramsDigest returns a digest of a request's params without those that differ in its retry. The
// order of the members and white space do not count, but within a member everything except white
// space does.
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

// declared reports whether a client that declared these capabilities may be asked a question.
// If not, required is what it would have to declare.
func declared(caps mcp.Raw, q mcp.InputRequest) (required mcp.Raw, ok bool) {
	has := mcp.ReadDeclared(caps)
	kind, part := "", ""
	switch q.Method {
	case mcp.MethodElicit:
		kind, part, ok = "elicitation", "form", has.Form
		if mode, _ := q.Params.Member("mode"); mode != nil && mode.Text() != "form" {
			part, ok = "url", has.URL
		}
	case mcp.MethodCreateMessage:
		kind, ok = "sampling", true
		_, tools := q.Params.Member("tools")
		_, choice := q.Params.Member("toolChoice")
		if tools || choice {
			part, ok = "tools", has.SamplingTools
		}
	case mcp.MethodRootsList:
		kind, ok = "roots", true
	default:
		return nil, false
	}
	needs := mcp.Raw("{}")
	if part != "" {
		needs = mcp.Object(part, mcp.Raw("{}"))
	}
	return mcp.Object(kind, needs), ok && caps.At(kind).IsObject()
}

// waiting holds the calls of clients without sessions that wait here for answers. A waiting call
// counts like a running request and uses its client's home, so that a replica that stops waits for
// the answer. There are none in a gateway alone.
type waiting struct {
	counted *live.Running

	mu    sync.Mutex // guards the fields below
	calls map[waitingKey]*waitingCall
}

// waitingKey names a waiting call: its client, as home.Key.String does, and its mcp.Round.
type waitingKey struct{ client, round string }

type waitingCall struct {
	home   *home.Home
	timer  *time.Timer // ends the wait
	detach func() bool
	lost   bool // another replica has taken the home over, and the call was given up: it does not count
}

// add makes a call of a request, which still runs, wait for an answer, at most for limit.
func (s *waiting) add(h *home.Home, key waitingKey, limit time.Duration) {
	s.drop(key) // the same question once more
	h.Again()
	s.counted.More()
	w := &waitingCall{home: h}
	s.mu.Lock()
	s.calls[key] = w
	w.timer = time.AfterFunc(limit, func() { s.drop(key) })
	s.mu.Unlock()
	detach := h.Attach(func(home.Why) { s.lose(key, w) })
	s.mu.Lock()
	w.detach = detach
	s.mu.Unlock()
}

// take ends the wait of a call when its answer has come, nil for one that does not wait here. The
// caller takes over its count, unless it is lost, and its use of the home.
func (s *waiting) take(key waitingKey) *waitingCall {
	s.mu.Lock()
	w := s.calls[key]
	delete(s.calls, key)
	var detach func() bool
	if w != nil {
		w.timer.Stop()
		detach = w.detach
		if !w.lost && w.home.IsOver() { // its end has not come to this call yet
			w.lost = true
			s.counted.Done()
		}
	}
	s.mu.Unlock()
	if detach != nil {
		detach()
	}
	return w
}

// drop ends the wait of a call that gets no answer any more, and reports whether it counted.
func (s *waiting) drop(key waitingKey) bool {
	w := s.take(key)
	if w == nil || w.lost {
		return false
	}
	w.home.Done()
	s.counted.Done()
	return true
}

// lose gives up a waiting call when its home is over. A client that brings the answer learns that the call is
// lost.
func (s *waiting) lose(key waitingKey, w *waitingCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[key] == w && !w.lost {
		w.lost = true
		s.counted.Done()
	}
}

// dropAll ends the waits of all calls, and returns how many there were.
func (s *waiting) dropAll() (calls int) {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.calls))
	s.mu.Unlock()
	for _, key := range keys {
		if s.drop(key) {
			calls++
		}
	}
	return calls
}

// TakeUp ends the wait of the call that this one goes on with. It returns the home that the call
// uses, which the caller takes over, or nil if no call waits here. Unless the call is lost, the
// caller takes its count over, too.
func (x *Exchange) TakeUp() (h *home.Home, lost bool) {
	w := x.e.waiting.take(x.waiting(x.Call.Round))
	if w == nil {
		return nil, false
	}
	return w.home, w.lost
}
