package cluster

import (
	"testing"
	"time"
)

func TestTenure(t *testing.T) {
	type beat struct {
		asked    int // seconds
		failed   bool
		anew     bool // Redis had no lease, or one that began since
		lapsed   bool // the wanted result
		settled  bool
		heldThen int // when the lease then ends, in seconds
	}
	ok := func(asked int, settled bool) beat {
		return beat{asked: asked, settled: settled, heldThen: asked + 10}
	}
	first := beat{asked: 1, anew: true, heldThen: 11}
	tests := []struct {
		name  string
		beats []beat
	}{
		{"it settles", []beat{first, ok(3, false), ok(5, false), ok(9, false), ok(11, true), ok(13, true)}},
		{"one that fails is a break", []beat{first, ok(6, false), {asked: 8, failed: true, heldThen: 16}, ok(11, false), ok(20, false), ok(21, true)}},
		{"it was deleted", []beat{first, ok(6, false), ok(11, true), {asked: 13, anew: true, lapsed: true, heldThen: 23}, ok(22, false), ok(23, true)}},
		{"it lapsed here", []beat{first, ok(6, false), ok(11, true), {asked: 21, lapsed: true, heldThen: 31}, ok(30, false), ok(31, true)}},
		{"Redis was away", []beat{first, ok(9, false), {asked: 11, failed: true, heldThen: 19}, {asked: 19, failed: true, heldThen: 19},
			{asked: 21, anew: true, lapsed: true, heldThen: 31}, ok(30, false), ok(31, true)}},
		{"Redis was not there at first", []beat{{asked: 1, failed: true}, {asked: 3, anew: true, heldThen: 13}, ok(12, false), ok(13, true)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			own := tenure{lease: 10 * time.Second}
			began := int64(0)
			for i, b := range tt.beats {
				if b.anew {
					began++
				}
				at := time.Duration(b.asked) * time.Second
				lapsed := false
				if b.failed {
					own.failed()
				} else {
					lapsed = own.renewed(at, at+time.Second/2, began)
				}
				if lapsed != b.lapsed || own.settled() != b.settled || own.end() != time.Duration(b.heldThen)*time.Second {
					t.Errorf("beat %d at %d s: lapsed %t, settled %t, held until %s; want %+v", i, b.asked, lapsed, own.settled(), own.end(), b)
				}
			}
		})
	}
}
