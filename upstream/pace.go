package upstream

import (
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// questionWeight is how much an elicitation, which a user has to read, counts to any other
	// question: programs answer those, and servers that work like agents make dozens in a call.
	questionWeight = 10
	// maxPaced bounds of how many clients it is known how much they were asked.
	maxPaced = 10_000
)

// pace keeps a server from asking a client without an end. A client can be asked as much at
// once as in a minute, and after that as fast as a minute's worth comes back (GCRA). The zero
// pace knows of nobody.
type pace struct {
	mu    sync.Mutex           // guards the fields below
	asked map[string]time.Time // by Call.Session: when it can be asked a minute's worth again
	said  time.Time            // when operators were last told of a client that was asked too much
}

// take reports whether a client can be asked what is worth so much of its minute; say, if not,
// whether operators were not told so for a minute.
func (p *pace) take(session string, now time.Time, worth time.Duration) (ok, say bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, known := p.asked[session]
	if until.Before(now) {
		until = now
	}
	until = until.Add(worth)
	if until.Sub(now) > time.Minute {
		if say = now.Sub(p.said) >= time.Minute; say {
			p.said = now
		}
		return false, say
	}
	if !known {
		p.makeRoom(now)
	}
	p.asked[session] = until
	return true, false
}

// makeRoom is called with mu held.
func (p *pace) makeRoom(now time.Time) {
	if p.asked == nil {
		p.asked = make(map[string]time.Time)
	}
	if len(p.asked) < maxPaced {
		return
	}
	for session, until := range p.asked {
		if !until.After(now) {
			delete(p.asked, session)
		}
	}
	for session := range p.asked { // any one
		if len(p.asked) < maxPaced {
			return
		}
		delete(p.asked, session)
	}
}

// mayAsk reports whether the client of a call can be asked all of this, and has operators
// know if not.
func (u *Upstream) mayAsk(c *mcp.Call, requests ...mcp.InputRequest) bool {
	weight := 0
	for _, r := range requests {
		if r.Method == mcp.MethodElicit {
			weight += questionWeight
		} else {
			weight++
		}
	}
	if weight == 0 {
		return true
	}
	perMinute := u.cfg.Limits.QuestionsPerMinute
	ok, say := u.pace.take(c.Session, time.Now(), time.Duration(weight)*(time.Minute/time.Duration(perMinute*questionWeight)))
	if ok {
		return true
	}
	u.count.unasked.Inc()
	if say {
		u.log.Warn("the upstream asks a client too much: questions are refused", "questions_per_minute", perMinute)
	}
	return false
}

// errAskedTooMuch is what a server is told.
var errAskedTooMuch = mcp.Errorf(mcp.CodeInternal, "the client is asked too much: wait before the next question")

// askedTooMuch is the error of a call that cannot go on without questions.
func (u *Upstream) askedTooMuch() *mcp.Error {
	return mcp.UpstreamError(mcp.CodeOverloaded, u.cfg.Name, mcp.ExecutedUnknown,
		"Upstream %s asks you more questions in a minute than the gateway lets it; try again later", u.cfg.Name)
}
