package policy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy/allowance"
)

// LimiterDeps are the dependencies of a Limiter.
type LimiterDeps struct {
	// Policy is required.
	Policy *Policy
	// Buckets store the allowances; nil for the memory of this process.
	Buckets allowance.Buckets
	// Rounds store which calls were counted and wait for answers; nil for the memory of this
	// process.
	Rounds Approvals
	// Metrics count refusals; nil for none.
	Metrics *Metrics
}

// Limiter refuses calls above their limits. It stands above the guard. It does not count
// calls of names that the caller cannot see: a limit must not reveal that they exist.
type Limiter struct {
	limits  []limit
	policy  *Policy
	buckets allowance.Buckets
	rounds  Approvals // calls that were counted and wait for answers
	metrics *Metrics
}

type limit struct {
	Limit
	who     *audience
	what    []pattern
	refused counter
}

// NewLimiter makes a Limiter from the section "limits".
func NewLimiter(cfg Limits, deps LimiterDeps) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	if deps.Policy == nil {
		return nil, errors.New("limits: a policy is needed")
	}
	if deps.Buckets == nil {
		deps.Buckets = allowance.NewMemory()
	}
	if deps.Rounds == nil {
		deps.Rounds = NewMemory()
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	l := &Limiter{policy: deps.Policy, buckets: deps.Buckets, rounds: deps.Rounds, metrics: deps.Metrics}
	for _, c := range cfg {
		if c.Per == "" {
			c.Per = PerUser
		}
		if c.Burst == 0 {
			c.Burst = c.Rate.Count
		}
		if c.What == nil {
			c.What = []string{"*:*"}
		}
		patterns, err := newPatterns(c.What)
		if err != nil {
			return nil, fmt.Errorf("limits: %w", err)
		}
		l.limits = append(l.limits, limit{Limit: c, who: newAudience(c.Who), what: patterns,
			refused: deps.Metrics.limits.WithLabelValues(c.Name)})
	}
	return l, nil
}

// Middleware puts the limiter in front of the guard.
func (l *Limiter) Middleware(next mcp.Handler) mcp.Handler {
	if len(l.limits) == 0 {
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			inner, _ := l.comeBack(ctx, c) // a call may have been counted before a reload
			return next.Handle(ctx, inner)
		})
	}
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if c.Kind() == "" {
			return next.Handle(ctx, c)
		}
		inner, counted := l.comeBack(ctx, c)
		if !counted {
			if err := l.count(ctx, c); err != nil {
				return nil, err
			}
		}
		reply, err := next.Handle(ctx, inner)
		if err != nil || reply == nil || reply.Ask == nil || len(reply.Ask.Round) == 0 {
			return reply, err
		}
		ask := *reply.Ask
		nonce := rand.Text()
		// If this fails, the next round counts as a call.
		_ = l.rounds.Put(ctx, c.Caller.User(), nonce, "", roundLife)
		ask.Round = ask.Round.Push(mcp.FrameCounted, nonce)
		return &mcp.Reply{Ask: &ask, Release: reply.Release}, nil
	})
}

// comeBack takes the limiter's frame off the Round. It reports whether the call is a further round
// of a counted one, which may return once.
func (l *Limiter) comeBack(ctx context.Context, c *mcp.Call) (inner *mcp.Call, counted bool) {
	nonce, below, ours := c.Round.Pop(mcp.FrameCounted)
	if !ours { // the first round came before a reload that added limits
		return c, false
	}
	// If the store fails, the round counts as a call.
	_, counted, _ = l.rounds.Take(ctx, c.Caller.User(), nonce)
	inner = c.Clone()
	inner.Round = below
	return inner, counted
}

// count takes the call from the allowances of all limits that apply, or from none of them.
func (l *Limiter) count(ctx context.Context, c *mcp.Call) error {
	target, ok := c.Lens.Target(ctx, c.Kind(), c.Name)
	if !ok || !l.policy.Visible(&c.Caller, target) {
		return nil
	}
	subject, spelled := l.policy.subjectOf(&c.Caller), spellTarget(target)
	var apply []*limit
	var buckets []allowance.Bucket
	for i := range l.limits {
		limit := &l.limits[i]
		if subject.unclear == nil && !limit.who.has(subject) || !spelled.fits(limit.what, Deny) {
			continue
		}
		apply = append(apply, limit)
		buckets = append(buckets, allowance.Bucket{
			Key:      bucketKey(limit.Name + "\x00" + limit.key(c, target)),
			Interval: limit.Rate.Per / time.Duration(limit.Rate.Count),
			Burst:    limit.Burst,
		})
	}
	if len(buckets) == 0 {
		return nil
	}
	wait, which, err := l.buckets.Take(ctx, buckets)
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	if wait <= 0 {
		return nil
	}
	l.metrics.refusedByLimits.Inc()
	apply[which].refused.Inc()
	return tooMany(apply[which], wait)
}

// key identifies the allowance of a call.
func (l *limit) key(c *mcp.Call, t mcp.Target) string {
	switch l.Per {
	case PerClient:
		return c.Caller.Issuer + "\x00" + c.Caller.ClientID
	case PerTool:
		return t.String()
	}
	return c.Caller.User()
}

// bucketKey makes a key of bounded length, since URIs have any length.
func bucketKey(key string) string {
	if len(key) <= 2*sha256.Size {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "\x00" + hex.EncodeToString(sum[:])
}

// tooMany is the error of a call that has to wait. The member retry_after of its data is in
// whole seconds, as in a Retry-After header.
func tooMany(l *limit, wait time.Duration) error {
	seconds := int64((wait + time.Second - 1) / time.Second)
	e := mcp.Errorf(failure.RateLimited, "Too many calls: the limit %s is %s for one %s. Try again in %d s.", l.Name,
		l.Rate, l.Per, seconds)
	e.Data = mcp.Object("limit", mcp.String(l.Name), "retry_after", mcp.Int(seconds), "retry_after_ms",
		mcp.Int(wait.Milliseconds()+1),
		"retryable", mcp.Raw("true"), "executed", mcp.String(string(mcp.ExecutedNo)))
	return e
}
