package front

import "time"

const (
	// progressRate is how many events of progress a second a client is told of one call,
	// and progressBurst how many at once. Of what comes faster, the latest is told.
	progressRate  = 50
	progressBurst = 50
)

// pace says when an event may be told, so that there are not too many (the generic cell
// rate algorithm). The zero pace has let none through.
type pace struct{ next time.Time } // when one would be due that comes at the rate

// take lets an event through, or returns how long it has to wait.
func (p *pace) take(now time.Time) time.Duration {
	const each = time.Second / progressRate
	if p.next.Before(now) {
		p.next = now
	}
	if wait := p.next.Sub(now) - (progressBurst-1)*each; wait > 0 {
		return wait
	}
	p.next = p.next.Add(each)
	return 0
}
