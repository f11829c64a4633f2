package audit

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestStatus: a sink that fails, holds calls or has lost records says so, and says no more when it
// works again.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, onFull := range []string{OnFullDrop, OnFullBlock} {
			var out pipe
			out.set(nil, errors.New("no space left"))
			j := started(t, stdoutConfig(onFull, 2), Deps{Stdout: &out})
			synctest.Wait() // the first anchor fails
			for range 4 {
				j.Put(call("x"))
			}
			s := j.Status()[0]
			blocks := onFull == OnFullBlock
			if s.Name != "stdout" || s.Failing.IsZero() || s.Error != "no space left" || s.Queued < 2 || s.Holds != blocks ||
				(s.Lost == 2) == blocks || s.LastLost.IsZero() != blocks {
				t.Errorf("%s: %+v", onFull, s)
			}
			out.set(nil, nil)
			closed(t, j)
			if len(j.Status()) != 0 {
				t.Errorf("%s: a closed journal has sinks", onFull)
			}
		}
	})
}

// TestStatusMends: what failed once is over as soon as it works.
func TestStatusMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pipe
		hold := make(chan struct{})
		out.set(hold, errors.New("no space left"))
		j := started(t, stdoutConfig("", 0), Deps{Stdout: &out})
		w := j.workers[0]
		synctest.Wait()
		if s := j.Status()[0]; !s.Failing.IsZero() {
			t.Errorf("before it failed: %+v", s)
		}
		close(hold)
		synctest.Wait()
		if s := j.Status()[0]; s.Failing.IsZero() {
			t.Errorf("it fails: %+v", s)
		}
		out.set(nil, nil)
		closed(t, j)
		if s := w.status(); !s.Failing.IsZero() || s.Error != "" || s.Queued != 0 {
			t.Errorf("it works: %+v", s)
		}
	})
	var none *Journal
	if none.Status() != nil {
		t.Error("no journal has sinks")
	}
}
