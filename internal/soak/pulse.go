package main

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	// pulseEvery is how often Redis is asked for a sign of life, and slowPulse the answer
	// that is slower than a machine has any reason for, half of what a replica waits.
	pulseEvery = 50 * time.Millisecond
	slowPulse  = 150 * time.Millisecond
	// afterStall is for how long replicas leave a Redis alone that did not answer in time.
	afterStall = 2 * time.Second
)

// pulse watches, until ctx ends, whether the machine has the time to run Redis. Where it has
// not, replicas rightly say that Redis does not answer.
func (s *site) pulse(ctx context.Context) {
	var conn net.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		beat := s.l.watchStall(last)
		err := error(nil)
		if conn == nil {
			conn, err = (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", s.store.address)
		}
		if err == nil {
			err = ping(conn)
		}
		if err != nil && conn != nil {
			conn.Close()
			conn = nil
		}
		beat()
	}
}

// watchStall opens a window when the machine has not come to something since a time, or does
// not until done is called. What Redis does because of a fault is the fault's.
func (l *ledger) watchStall(since time.Time) (done func()) {
	var w *window
	var once sync.Once
	open := func() {
		once.Do(func() {
			if !l.duringStoreFault() {
				w = l.begin(stalled, storeless)
			}
		})
	}
	timer := time.AfterFunc(slowPulse, open)
	return func() {
		timer.Stop()
		if time.Since(since) > pulseEvery+slowPulse {
			open()
		}
		once.Do(func() {}) // waits for open, or keeps it from running
		if w != nil {
			l.end(w, afterStall)
		}
	}
}
