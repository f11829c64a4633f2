package audit

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// keptText bounds the memory that is kept for the next lines.
const keptText = 4 << 20

// deliver writes records, and an anchor for event unless that is "", until the sink has taken
// them. It returns false if that was given up.
func (w *worker) deliver(batch []*record.Record, event string) bool {
	wait := w.deps.retry
	for {
		err := w.try(batch, event)
		w.note(err)
		if err == nil {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.give.Done():
			timer.Stop()
			return false
		}
		wait = min(2*wait, retryMost)
	}
}

// try writes once. The chain goes on only if that succeeds.
func (w *worker) try(batch []*record.Record, event string) error {
	chain := w.chain
	at, err := w.out.ready(w.give, &chain)
	if err != nil {
		return err
	}
	w.text, w.lines = w.text[:0], w.lines[:0]
	unanchored := w.unanchored
	add := func(r *record.Record) {
		start := len(w.text)
		w.text = chain.Append(w.text, r)
		w.lines = append(w.lines, w.text[start:])
		switch {
		case r.Kind == record.KindAnchor:
			unanchored = time.Time{}
		case unanchored.IsZero():
			unanchored = time.Now()
		}
	}
	switch {
	case at.fresh:
		add(w.anchor(record.EventFile, 0))
	case at.torn > 0 || event == record.EventStart:
		add(w.anchor(record.EventStart, at.torn))
	}
	for _, r := range batch {
		if chain.Unanchored >= record.AnchorEvery {
			add(w.anchor(record.EventRecords, 0))
		}
		add(r)
	}
	if event == record.EventRecords || event == record.EventStop {
		add(w.anchor(event, 0))
	}
	if err := w.out.write(w.give, w.lines); err != nil {
		return err
	}
	w.chain, w.unanchored, w.begun, w.unsettled = chain, unanchored, true, true
	w.metrics.records.Add(float64(len(w.lines)))
	if at.fresh || event == record.EventStop {
		// The log is another place: what it says of a chain shows if its end is cut off later.
		w.deps.Log.Info("audit: anchor", "sink", w.sink.Name, "chain", chain.Name, "record", chain.Seq, "hash", chain.Last.String())
	}
	if cap(w.text) > keptText {
		w.text, w.lines = nil, nil
	}
	return nil
}

func (w *worker) anchor(event string, torn int64) *record.Record {
	return &record.Record{
		Time: time.Now(), Kind: record.KindAnchor, Event: event,
		Replica: w.deps.Replica, Started: w.started, Version: w.deps.Version, Torn: torn,
	}
}

// note logs when a sink begins to fail, and when it goes on.
func (w *worker) note(err error) {
	switch {
	case err != nil:
		w.metrics.failures.Inc()
		if !w.failing && w.give.Err() == nil {
			w.deps.Log.Error("audit: a sink fails: it is tried again, and records wait for it", failure.AuditSinkDown.Attr(), "sink", w.sink.Name, "on_full", onFull(w.block), "error", err)
		}
	case w.failing:
		w.deps.Log.Info("audit: a sink goes on", "sink", w.sink.Name)
	}
	w.failing = err != nil
}

func onFull(block bool) string {
	if block {
		return OnFullBlock
	}
	return OnFullDrop
}
