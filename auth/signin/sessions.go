package signin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// Life is how long a person stays signed in, Idle how long without a request.
	Life = 8 * time.Hour
	Idle = time.Hour
	// most bounds the sessions in memory; further sign-ins end the one that was used least recently. Of one
	// person there is a share of them: see expiring.Store.PutOf.
	most = 1000
	// renewAfter is how old the record of the last request may be.
	renewAfter = time.Minute
)

// ErrNone is the error for a session that does not exist, or no longer does.
var ErrNone = errors.New("nobody is signed in")

// Person is a person who has signed in.
type Person struct {
	Caller mcp.Caller `json:"caller"`
	Since  time.Time  `json:"since"`
	Used   time.Time  `json:"used"`
}

// over reports whether the person has to sign in again.
func (p Person) over(now time.Time) bool {
	return now.Sub(p.Since) >= Life || now.Sub(p.Used) >= Idle
}

// Sessions are those of browsers, by a random id that only the browser knows. They are safe for
// concurrent use.
type Sessions struct {
	people *expiring.Store
	beside *expiring.Store // those that began while Redis did not answer, at this replica alone
}

// besidePrefix begins the ids of sessions beside Redis.
const besidePrefix = "beside-"

// NewSessions keeps sessions in Redis, sealed, or in memory.
func NewSessions(base expiring.Base, key *seal.Key) *Sessions {
	return &Sessions{expiring.New(base.Brief(), key, "people", most), expiring.New(expiring.Base{}, key, "people", most)}
}

// of returns where a session is kept.
func (s *Sessions) of(id string) *expiring.Store {
	if strings.HasPrefix(id, besidePrefix) {
		return s.beside
	}
	return s.people
}

// Begin keeps who has signed in, and returns the id for the browser.
func (s *Sessions) Begin(ctx context.Context, who mcp.Caller) (id string, err error) {
	now := time.Now()
	who.Token = ""
	value, err := json.Marshal(Person{Caller: who, Since: now, Used: now})
	if err != nil {
		return "", err
	}
	id = rand.Text() + rand.Text()
	if err := s.people.PutOf(ctx, who.User(), id, value, Idle); err == nil {
		return id, nil
	}
	id = besidePrefix + id // the operator who repairs Redis has to get in
	return id, s.beside.PutOf(ctx, who.User(), id, value, Idle)
}

// Who returns the person of a session. The error is ErrNone, or that of Redis.
func (s *Sessions) Who(ctx context.Context, id string) (Person, error) {
	people := s.of(id)
	value, err := people.Get(ctx, id)
	var p Person
	if errors.Is(err, expiring.ErrNone) || err == nil && json.Unmarshal(value, &p) != nil {
		return Person{}, ErrNone
	}
	if err != nil {
		return Person{}, err
	}
	now := time.Now()
	if p.over(now) {
		return Person{}, errors.Join(ErrNone, s.End(ctx, id))
	}
	p.Caller.Token = "" // as it was before it hid itself
	if now.Sub(p.Used) >= renewAfter {
		p.Used = now
		renewed, err := json.Marshal(p)
		if err != nil {
			return Person{}, err
		}
		// A session that has ended since is not begun again.
		if _, err := people.Swap(ctx, id, value, renewed, Idle); err != nil {
			return Person{}, err
		}
	}
	p.Caller = mcp.NewCaller(p.Caller)
	return p, nil
}

// End forgets a session.
func (s *Sessions) End(ctx context.Context, id string) error { return s.of(id).Drop(ctx, id) }
