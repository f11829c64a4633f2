package upstream

import (
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

func TestH163_Restarts(t *testing.T) {
	var r restarts
	now := time.Now()
	if pause, down := r.pause(now); pause > 0 || down {
		t.Errorf("before any crash: pause %s, down %v", pause, down)
	}
	last := time.Duration(0)
	for i := 1; i <= 5; i++ {
		r.crashed(now, 0)
		pause, down := r.pause(now)
		if pause < 800*time.Millisecond<<(i-1) || pause > 1200*time.Millisecond<<(i-1)+time.Millisecond || down != (i == 5) {
			t.Errorf("after crash %d: pause %s, down %v", i, pause, down)
		}
		last = pause
		now = now.Add(time.Second)
	}
	if pause, down := r.pause(now.Add(last)); pause > 0 || down {
		t.Errorf("after the back-off: pause %s, down %v", pause, down)
	}
	r.crashed(now, time.Hour)
	if pause, down := r.pause(now); pause > 1300*time.Millisecond || down {
		t.Errorf("after a long life: pause %s, down %v", pause, down)
	}
}

// FuzzJudge: no answer to the probe panics, and an era is concluded or an error given.
func FuzzJudge(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}`, 200)
	f.Add(`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"data":{"supported":["2025-11-25"]}}}`, 400)
	f.Fuzz(func(t *testing.T, body string, status int) {
		m, err := transport.Scan([]byte(body))
		if err == nil && status != 200 {
			err = &transport.StatusError{Status: status, Message: m}
		}
		if e, err := judgeHTTP(m, err); (e == nil) == (err == nil) {
			t.Errorf("era %v, error %v", e, err)
		}
		if e, err := judgeStdio(m, nil); e == nil || err != nil {
			t.Errorf("era %v, error %v", e, err)
		}
	})
}
