package admin

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// mostPace bounds the parameter pace.
const mostPace = 10_000

// pacer lets so many records through within a second, the newest ones, and counts the others: people
// read no faster, and each record that is written costs what calls need.
type pacer struct {
	most  int // 0 for all
	began time.Time
	sent  int

	missed int64 // that were not told yet
}

// take returns the records to send now, and how many were missed before them, which is told once a
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
