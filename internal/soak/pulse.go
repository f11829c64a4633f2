package main

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	// pulseEvery is the time between two pings of Redis. An answer slower than slowPulse,
	// half of what a replica waits, means that the machine is overloaded.
	pulseEvery = 50 * time.Millisecond
	slowPulse  = 150 * time.Millisecond
	// afterStall is how long replicas do not use a Redis that failed to answer in time.
	afterStall = 2 * time.Second
)

// pulse watches, until ctx ends, whether the machine has time to run Redis. If not,
// replicas are right to say that Redis does not answer.
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

// watchStall opens the window of a stall if the machine has not reached something since a
// time, or does not reach it before done is called. During a fault of Redis the fault
// explains a slow Redis.
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
		once.Do(func() {}) // waits for open, or prevents it
		if w != nil {
			l.end(w, afterStall)
		}
	}
}
