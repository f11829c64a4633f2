package admit

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// questionWeight is how many other questions an elicitation counts for: a user has to read it,
	// while programs answer the others, and agents make dozens of them in a call.
	questionWeight = 10
	// maxAsked bounds how many clients are remembered. The one that was asked longest ago is
	// forgotten.
	maxAsked = 10_000
)

// ErrAskedTooMuch is the answer to a server when its question is refused.
var ErrAskedTooMuch = mcp.Errorf(failure.QuestionRefused, "the client is asked too much: wait before the next question")

// questionRate bounds how often a server may ask a client. A client can be asked as much at once as
// in a minute, and after that as fast as a minute's worth comes back.
type questionRate struct {
	perMinute int
	clients   *lru.Cache[string, *rate.Limiter] // by Call.Session
	warnings  rate.Sometimes                    // of a client that is asked too much
}

func newQuestionRate(perMinute int) *questionRate {
	clients, _ := lru.New[string, *rate.Limiter](maxAsked) // the only error is about the size
	return &questionRate{perMinute: perMinute, clients: clients, warnings: rate.Sometimes{Interval: time.Minute}}
}

// take reports whether a client can be asked questions of this weight.
func (q *questionRate) take(session string, now time.Time, weight int) bool {
	client, known := q.clients.Get(session)
	if !known {
		minute := q.perMinute * questionWeight
		client = rate.NewLimiter(rate.Limit(float64(minute)/60), minute)
		if other, known, _ := q.clients.PeekOrAdd(session, client); known {
			client = other
		}
	}
	return client.AllowN(now, weight)
}

// MayAsk reports whether the client of a call can be asked all of this, and lets operators
// know if it cannot.
func (a *Admit) MayAsk(c *mcp.Call, requests ...mcp.InputRequest) bool {
	weight := 0
	for _, r := range requests {
		if r.Method == mcp.MethodElicit {
			weight += questionWeight
		} else {
			weight++
		}
	}
	if weight == 0 || a.questions.take(c.Session, time.Now(), weight) {
		return true
	}
	a.deps.Unasked()
	a.questions.warnings.Do(func() {
		a.deps.Log.Warn("the upstream asks a client too much: questions are refused", failure.UpstreamAsksTooMuch.Attr(),
			"questions_per_minute", a.cfg.QuestionsPerMinute)
	})
	return false
}

// AskedTooMuch is the error of a call that cannot go on without questions.
func (a *Admit) AskedTooMuch() *mcp.Error {
	return mcp.UpstreamError(failure.UpstreamAsksTooMuch, a.cfg.Upstream, mcp.ExecutedUnknown,
		"Upstream %s asks you more questions in a minute than the gateway lets it; try again later", a.cfg.Upstream)
}
