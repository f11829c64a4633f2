package admin

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// mostPace bounds the parameter pace.
const mostPace = 10_000

// pacer passes a bounded number of records within a second, the newest ones, and counts the others:
// people read no faster, and writing each record slows calls down.
type pacer struct {
	most  int // 0 for all
	began time.Time
	sent  int

	missed int64 // not reported yet
}

// take returns the records to send now, and the number missed before them, which it reports once a
// second.
func (p *pacer) take(items []*recent.Item, missed int64, now time.Time) (sent []*recent.Item, told int64) {
	if p.most == 0 {
		return items, missed
	}
	p.missed += missed
	if now.Sub(p.began) >= time.Second {
		p.began, p.sent = now, 0
		told, p.missed = p.missed, 0
	}
	if over := len(items) - (p.most - p.sent); over > 0 {
		p.missed += int64(over)
		items = items[over:]
	}
	p.sent += len(items)
	return items, told
}
