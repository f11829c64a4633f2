package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// callerClass is a set of callers to whom the same rules apply: they get the same decision
// wherever no condition is left to evaluate. Immutable except for its cache.
type callerClass struct {
	// id is a digest of how each rule applies, so equal classes have equal ids.
	id    [16]byte
	rules []applicable
	// frame is what the callers' view leaves of all that; nil at the gateway's own endpoint.
	frame *frame
	// who is the only caller of the class, if a condition looks at caller and target together: its
	// result is theirs alone. Else nil.
	who *subject
	// upstreams caches, by upstream and kind, whether the callers may know of something there: see
	// Policy.upstreams.
	upstreams sync.Map
}

// applicable is a rule that applies to the caller.
type applicable struct {
	*rule
	// open says that the condition depends on the call, broken that it fails whatever the
	// call is. Else the condition is true.
	open, broken bool
	// unsure is what would tell whether the rule is for the caller at all; 0 for nothing. Only
	// callers from records leave that open.
	unsure Missing
	// hides says that more would be known of the condition if all was known of the caller.
	hides bool
}

// frame is a compiled View.
type frame struct {
	who   *audience
	shows []pattern
}

// noFrame shows nothing.
var noFrame = &frame{}

// frameOf returns what a caller's view shows; nil at the gateway's own endpoint. A view that
// does not exist, or is for others, shows nothing.
func (p *Policy) frameOf(who *subject) *frame {
	if who.caller.View == "" {
		return nil
	}
	if f := p.views[who.caller.View]; f != nil && who.unclear == nil && f.who.has(who) {
		return f
	}
	return noFrame
}

// hasher hashes everything that rules may look at of a caller. Equal hashes are only
// candidates for equal callers.
type hasher struct{ seed maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed()} }

func (h hasher) of(c *mcp.Caller) uint64 {
	const mix = 0x9e3779b97f4a7c15
	sum := uint64(0)
	add := func(s string) { sum = (sum ^ maphash.String(h.seed, s)) * mix }
	if c.View != "" {
		add(c.View)
	}
	if c.Claims != nil {
		return sum ^ maphash.Bytes(h.seed, c.Claims) // all the rest is from there
	}
	add(c.Issuer)
	add(c.Subject)
	add(c.ClientID)
	for _, g := range c.Groups {
		add(g)
	}
	sum *= mix
	for _, s := range c.Scopes {
		add(s)
	}
	return sum
}

// subjectOf returns the subject of a caller, cached if possible. It compares everything that
// a rule may look at, because a new token may bring other groups.
func (p *Policy) subjectOf(c *mcp.Caller) *subject {
	key := p.hash.of(c)
	if known, ok := p.subjects.Get(key); ok && known.is(c) {
		return known
	}
	fresh := newSubject(*c)
	fresh.class = p.classOf(fresh)
	p.subjects.Add(key, fresh)
	return fresh
}

func (p *subject) is(c *mcp.Caller) bool {
	known := &p.caller
	return known.View == c.View && known.Issuer == c.Issuer && known.Subject == c.Subject &&
		known.ClientID == c.ClientID &&
		bytes.Equal(known.Claims, c.Claims) && slices.Equal(known.Groups, c.Groups) && slices.Equal(known.Scopes, c.Scopes)
}

// classOf finds the rules that apply to a caller. It evaluates their conditions as far as they
// depend on the caller alone.
func (p *Policy) classOf(who *subject) *callerClass {
	c := &callerClass{frame: p.frameOf(who)}
	states := make([]byte, len(p.rules))
	for i, r := range p.rules {
		s, holds := r.appliesTo(who)
		if !holds {
			continue
		}
		states[i] = 1
		switch {
		case s.open:
			states[i] = 2
			if r.when.caller && r.when.target {
				c.who = who
			}
		case s.broken:
			states[i] = 3
		}
		if s.unsure != 0 {
			states[i] = 4
		}
		c.rules = append(c.rules, s)
	}
	if c.frame != nil {
		states = append(states, "view "...)
		if c.frame != noFrame {
			states = append(states, who.caller.View...)
		}
	}
	if c.who != nil {
		states = append(states, who.digest()...)
	}
	sum := sha256.Sum256(states)
	c.id = [16]byte(sum[:])
	return c
}

// digest covers everything that rules may look at.
func (p *subject) digest() []byte {
	c := &p.caller
	h := sha256.New()
	add := func(parts ...string) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(parts)))
		h.Write(size[:])
		for _, part := range parts {
			binary.BigEndian.PutUint64(size[:], uint64(len(part)))
			h.Write(size[:])
			h.Write([]byte(part))
		}
	}
	add(c.Issuer, c.Subject, c.ClientID, string(c.Claims))
	add(c.Groups...)
	add(c.Scopes...)
	return h.Sum(nil)
}

// appliesTo evaluates the rule for a caller; ok is false if it does not apply to them.
func (r *rule) appliesTo(who *subject) (s applicable, ok bool) {
	s = applicable{rule: r}
	if who.unclear != nil {
		s.broken = true
		return s, true
	}
	if !r.who.has(who) {
		return s, false
	}
	s.unsure = r.who.unsure(who)
	if r.when == nil {
		return s, true
	}
	s.hides = who.hidden && r.when.hidden != 0
	result, _ := r.when.eval(context.Background(), facts{subject: who})
	s.open, s.broken = result == isOpen, result == failed
	return s, result != isFalse
}
