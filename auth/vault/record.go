package vault

import (
	"encoding/json"
	"math/rand/v2"
	"time"
)

const (
	// mostEarly is how long before its end a token is refreshed, at most.
	mostEarly = 5 * time.Minute
	// afterRefusal is how long the replacement of a refused token must not be refused, too: else a
	// user has to sign in again.
	afterRefusal = time.Minute
	// rewrite is the age from which a used value is written again, so that it lasts.
	rewrite = 24 * time.Hour
	// afterEnd is how long an account is shown after it ended.
	afterEnd = 30 * 24 * time.Hour
)

// Pauses between attempts that fail.
const (
	firstPause = time.Second
	mostPause  = time.Minute
)

// record is an account as it is kept. What stands in the store is never changed in place: each
// change swaps the whole value.
type record struct {
	ID     string // of the sign-in: another one has another ID
	Grant  Grant
	Secret string `json:",omitempty"` // Grant.ClientSecret, which does not write itself
	Since  time.Time
	// Written is when this value was made, Issued when the access token was. Renew is when it
	// should be refreshed, zero for never.
	Written, Issued, Renew time.Time
	// Forced is when the access token replaced one that the server had refused.
	Forced time.Time
	// End is StateRevoked or StateNeedsSignIn when the account cannot be used any more, with why.
	End string `json:",omitempty"`
	Why string `json:",omitempty"`
	// Unknown says that it ended since its authorization server does not know Grant.ClientID any more.
	Unknown bool `json:",omitempty"`
	// Wanted are the scopes that the server has asked for beyond those of the grant.
	Wanted []string `json:",omitempty"`
	// Trouble is why the last refresh failed; nil if it did not.
	Trouble *trouble `json:",omitempty"`
}

// trouble is a refresh that failed and may succeed later.
type trouble struct {
	Failures int
	Until    time.Time // no attempt before
	Why      string    // for the user
}

// issued notes that the access token was issued now. It is refreshed a tenth to a fifth of its life
// before its end, at most 5 minutes.
func (r *record) issued(now time.Time) {
	r.Issued, r.Written, r.Renew, r.Trouble = now, now, time.Time{}, nil
	if r.Grant.Expires.IsZero() || r.Grant.RefreshToken == "" {
		return
	}
	early := min(r.Grant.Expires.Sub(now)/10, mostEarly/2)
	if early > 0 {
		early += time.Duration(rand.Int64N(int64(early)))
	}
	r.Renew = r.Grant.Expires.Add(-early)
}

// dead reports whether the access token has ended.
func (r *record) dead(now time.Time) bool {
	return !r.Grant.Expires.IsZero() && !now.Before(r.Grant.Expires)
}

// due reports whether the access token should be refreshed.
func (r *record) due(now time.Time) bool {
	return !r.Renew.IsZero() && !now.Before(r.Renew)
}

// life is how long the record is kept.
func (r *record) life() time.Duration {
	switch {
	case r.End != "":
		return afterEnd
	case r.Grant.RefreshToken == "" && !r.Grant.Expires.IsZero():
		return max(time.Until(r.Grant.Expires), 0) + afterEnd
	}
	return unused
}

// failed notes a refresh that failed, and may succeed after a pause that grows.
func (r *record) failed(now time.Time, why string, least time.Duration) {
	t := trouble{Why: why, Failures: 1}
	if r.Trouble != nil {
		t.Failures += r.Trouble.Failures
	}
	pause := min(firstPause<<min(t.Failures-1, 6), mostPause)
	pause += time.Duration(float64(pause) * (rand.Float64() - 0.5) * 0.4)
	t.Until = now.Add(max(pause, min(least, 5*mostPause)))
	r.Trouble = &t
}

// ended notes that the account cannot be used any more.
func (r *record) ended(state, why string) {
	r.End, r.Why, r.Trouble = state, why, nil
	if state == StateRevoked { // the tokens are worth nothing
		r.Grant.AccessToken, r.Grant.RefreshToken = "", ""
	}
}

func (r *record) marshal() ([]byte, error) { return json.Marshal(r) }

func parseRecord(text []byte) (r record, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return r, errUnreadable // the error of json may quote it
	}
	r.Grant.ClientSecret = secret(r.Secret)
	return r, nil
}
