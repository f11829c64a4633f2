package pool

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	var b backoff
	now := time.Now()
	if pause, down := b.pause(now); pause > 0 || down {
		t.Errorf("before any crash: pause %s, down %v", pause, down)
	}
	last := time.Duration(0)
	for i := 1; i <= 5; i++ {
		b.crashed(now, 0)
		pause, down := b.pause(now)
		if pause < 800*time.Millisecond<<(i-1) || pause > 1200*time.Millisecond<<(i-1)+time.Millisecond || down != (i == 5) {
			t.Errorf("after crash %d: pause %s, down %v", i, pause, down)
		}
		last = pause
		now = now.Add(time.Second)
	}
	if pause, down := b.pause(now.Add(last)); pause > 0 || down {
		t.Errorf("after the back-off: pause %s, down %v", pause, down)
	}
	b.crashed(now, time.Hour)
	if pause, down := b.pause(now); pause > 1300*time.Millisecond || down {
		t.Errorf("after a long life: pause %s, down %v", pause, down)
	}
}
