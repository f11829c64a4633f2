// Package admit decides whether a call may go to an upstream now.
//
// It owns the queue of calls, what a server says with 429 and Retry-After, the breaker, how
// many task results a user may wait for, and how many questions a client may be asked in a
// minute. It leaves the meaning of an error to its caller, and starts no goroutine.
package admit

import (
	"context"
	"log/slog"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Config says what one upstream takes.
type Config struct {
	Upstream string // its name, for errors
	// Concurrent calls run at a time, ConcurrentPerUser of them for one user. Queued more
	// wait, for Patience at most.
	Concurrent, ConcurrentPerUser, Queued int
	Patience                              time.Duration
	// TaskResults is how many results of tasks a caller may wait for.
	TaskResults func(*mcp.Caller) int
	// QuestionsPerMinute is how many elicitations a client may be asked.
	QuestionsPerMinute int
}

// Deps are the dependencies of an Admit. All fields are required.
type Deps struct {
	Log *slog.Logger
	// Opened counts how often the breaker opens, Refused the calls that it refuses, Unasked
	// the questions that are refused.
	Opened, Refused, Unasked func()
	// Closed ends the waiting in the queue.
	Closed <-chan struct{}
	// Failure turns an error into one that the client may read.
	Failure func(context.Context, *mcp.Call, error) error
	// Note takes the error of a call, as the client reads it, and its cause, and returns what that
	// shows of the server.
	Note func(c *mcp.Call, told, cause error) Outcome
}

// Outcome says what a call has shown of a server. The zero Outcome is for nothing.
type Outcome struct {
	There      bool          // it has answered
	Gone       string        // why it cannot be reached, for the client; "" for nothing shown
	RetryAfter time.Duration // how long it wants no more calls of this user
}

// Admit decides for the calls of one upstream. Its methods may be called concurrently.
type Admit struct {
	cfg       Config
	deps      Deps
	queue     *Queue
	results   results
	retries   *retryAfter
	breaker   breaker
	questions *questionRate
}

// New returns an Admit.
func New(cfg Config, deps Deps) *Admit {
	return &Admit{
		cfg: cfg, deps: deps,
		queue:     NewQueue(cfg.Concurrent, cfg.ConcurrentPerUser, cfg.Queued, cfg.Patience, deps.Closed),
		results:   results{users: make(map[string]int)},
		retries:   newRetryAfter(),
		questions: newQuestionRate(cfg.QuestionsPerMinute),
	}
}

// User returns the user that a call of this caller counts for, "" without authentication.
func User(c *mcp.Caller) string {
	if c.Issuer == "" {
		return ""
	}
	return c.User()
}

// Middleware lets each call wait for its turn, or refuses it. Streams of subscriptions pass.
//
// Neither Retry-After nor the breaker holds up a call that the server has already taken and
// that only goes on, nor server/discover, which is not called often. A call that waits for a
// task may take long, and has no place in the queue.
func (a *Admit) Middleware(next mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if c.Method == mcp.MethodListen {
			reply, err := next.Handle(ctx, c)
			if err != nil {
				err = a.deps.Failure(ctx, c, err)
			}
			return reply, err
		}
		user, begins := User(&c.Caller), len(c.Round) == 0 && c.Method != mcp.MethodDiscover
		if begins {
			if wait := a.retries.left(user, time.Now()); wait > 0 {
				return nil, a.Limited(wait)
			}
		}
		if c.Method == mcp.MethodTasksResult {
			if !a.results.begin(user, a.cfg.TaskResults(&c.Caller)) {
				return nil, mcp.UpstreamError(failure.TooManyTasks, a.cfg.Upstream, mcp.ExecutedNo,
					"Too many calls of this user wait for tasks of upstream %s; ask for their states by tasks/get", a.cfg.Upstream)
			}
			defer a.results.end(user)
		} else {
			step := c.Trail.Begin("queue", a.cfg.Upstream)
			if _, err := a.queue.Enter(ctx, user); err != nil {
				err = a.deps.Failure(ctx, c, err)
				step.End(mcp.FailureOf(err).String())
				return nil, err
			}
			step.End("")
			defer a.queue.Release(user)
		}
		trial := false
		if begins {
			var wait time.Duration
			var why string
			if trial, wait, why = a.breaker.admit(time.Now()); why != "" {
				return nil, a.refusal(wait, why)
			}
		}
		var shown Outcome // nothing, if the call panics
		defer func() {
			if a.breaker.done(time.Now(), trial, shown) {
				a.deps.Opened()
			}
		}()
		reply, cause := next.Handle(ctx, c)
		err := cause
		if cause != nil {
			err = a.deps.Failure(ctx, c, cause)
		}
		shown = a.deps.Note(c, err, cause)
		if shown.RetryAfter > 0 {
			a.retries.begin(user, time.Now(), shown.RetryAfter)
		}
		return reply, err
	})
}

// refusal is the error of a call that the breaker holds back.
func (a *Admit) refusal(wait time.Duration, why string) error {
	a.deps.Refused()
	e := mcp.UpstreamError(failure.UpstreamDown, a.cfg.Upstream, mcp.ExecutedNo, "%s", why)
	e.Data = e.Data.With("retryAfterMs", mcp.Int(wait.Milliseconds()+1))
	return e
}

// Load returns how many calls run and wait in the queue.
func (a *Admit) Load() (running, waiting int) { return a.queue.Size() }

// Trial lets the next call through even if earlier ones could not reach the server.
func (a *Admit) Trial() { a.breaker.letTry() }

// RefusedUntil returns until when the breaker refuses calls, zero when it does not.
func (a *Admit) RefusedUntil() time.Time { return a.breaker.opens() }
