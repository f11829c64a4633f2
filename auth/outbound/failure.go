package outbound

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// Pauses between attempts that fail: 1 s to 60 s, each a fifth more or less, so that
// many who wait for one thing do not come back at once.
const (
	firstPause   = time.Second
	longestPause = time.Minute
	mostPause    = 5 * time.Minute // that an endpoint can ask for
)

// Error says why there is no credential.
type Error struct {
	// Why is for the client: what is the matter and what to do, without secrets and
	// addresses, such as "the token endpoint does not answer; try again later".
	Why string
	// SignIn says that the user has to sign in at the upstream first, with an account of their own.
	SignIn bool
	// cause is for the log; nil when there is nothing to add.
	cause error
	// code is the error code of the token endpoint, "" for none.
	code string
	// shared says that it fails for every user, so that the endpoint is left alone.
	shared bool
	// after is how long the endpoint wants to be left alone.
	after time.Duration
}

func (e *Error) Error() string { return "no credential: " + e.Why }

// Unwrap returns what was behind it.
func (e *Error) Unwrap() error { return e.cause }

// pause remembers a failure: until its end the same error is the answer.
type pause struct {
	failures int
	until    time.Time
	err      error
}

func (p *pause) failed(now time.Time, err error, least time.Duration) {
	if now.Before(p.until) {
		return // others that were under way at the same time
	}
	d := firstPause << min(p.failures, 6)
	d = min(d, longestPause)
	d += time.Duration(float64(d) * (rand.Float64() - 0.5) * 0.4)
	p.failures++
	p.until, p.err = now.Add(max(d, min(least, mostPause))), err
}

func (p *pause) over(now time.Time) bool { return !now.Before(p.until) }

func (p *pause) reset() { *p = pause{} }

// codePattern is an error code of RFC 6749 §5.2, of a length that can be shown.
var codePattern = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,64}$`)

// printable makes foreign text fit for a log: one line of at most 200 letters, without what is
// secret to us.
func printable(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "<secret>")
		}
	}
	const most = 200
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > most {
			break
		}
		if !unicode.IsPrint(r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}
