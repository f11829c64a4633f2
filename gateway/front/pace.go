package front

import "time"

const (
	// progressRate is how many progress events a second a client gets for one call.
	// progressBurst is how many it gets at once. Of events that come faster, the latest is
	// sent.
	progressRate  = 50
	progressBurst = 50
)

// pace limits how often events are sent (the generic cell rate algorithm). The zero value has
// let none through.
type pace struct{ next time.Time } // when the next event at progressRate is due

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
