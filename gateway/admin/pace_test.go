package admin

import (
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// TestPace: more than so many records within a second are counted, not sent, and none is lost count
// of.
func TestPace(t *testing.T) {
	p := pacer{most: 3}
	items := func(n int) []*recent.Item { return make([]*recent.Item, n) }
	now := time.Now()
	var sent, missed, offered int64
	for _, step := range []struct {
		after  time.Duration
		n      int
		missed int64
		want   int
		told   int64
	}{
		{0, 2, 0, 2, 0}, {100, 2, 0, 1, 0}, {100, 5, 4, 0, 0}, {900, 1, 0, 1, 10}, {100, 4, 0, 2, 0}, {1000, 0, 0, 0, 2},
	} {
		now = now.Add(step.after * time.Millisecond)
		got, told := p.take(items(step.n), step.missed, now)
		if len(got) != step.want || told != step.told {
			t.Errorf("%+v: %d sent, %d told", step, len(got), told)
		}
		sent, missed, offered = sent+int64(len(got)), missed+told, offered+int64(step.n)+step.missed
	}
	if sent+missed+p.missed != offered {
		t.Errorf("%d sent and %d missed of %d", sent, missed, offered)
	}
	if got, told := (&pacer{}).take(items(9), 7, now); len(got) != 9 || told != 7 {
		t.Errorf("without a pace: %d, %d", len(got), told)
	}
}
