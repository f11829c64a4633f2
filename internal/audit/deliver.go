package audit

import (
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// keptText bounds the memory that is kept for the next lines.
const keptText = 4 << 20

// deliver writes records until the sink has taken them, or refuses them for good where records may
// be lost. It adds an anchor for event unless that is "". It returns false if it gave up.
func (w *worker) deliver(batch []*record.Record, event string) bool {
	begun := time.Now() // of all tries, so that each writes the same bytes
	for {
		err := w.try(batch, event, begun)
		w.note(err)
		if err == nil {
			w.backoff = w.deps.retry
			return true
		}
		no, ok := errors.AsType[*refusal](err)
		if !ok {
			no = &refusal{}
		}
		if no.taken {
			w.refused(no.lost, 0)
			return true
		}
		timer := time.NewTimer(max(w.backoff, no.after))
		select {
		case <-timer.C:
		case <-w.give.Done():
			timer.Stop()
			return false
		}
		w.backoff = min(2*w.backoff, retryMost)
		if no.final && !w.block {
			w.refused(countOf(batch))
			return true
		}
	}
}

// try writes once. The chain goes on only if that succeeds.
func (w *worker) try(batch []*record.Record, event string, begun time.Time) error {
	chain := w.chain
	at, err := w.out.ready(w.give, &chain)
	if err != nil {
		return err
	}
	w.text, w.entries = w.text[:0], w.entries[:0]
	add := func(r *record.Record) {
		start := len(w.text)
		w.text = chain.Append(w.text, r)
		w.entries = append(w.entries, entry{r, w.text[start:]})
	}
	anchor := func(event string) {
		add(&record.Record{
			Time: begun, Kind: record.KindAnchor, Event: event,
			Replica: w.deps.Replica, Started: w.started, Version: w.deps.Version, Torn: at.torn, Last: at.last,
		})
		at.torn = 0
	}
	switch {
	case at.fresh:
		anchor(record.EventFile)
	case at.torn > 0 || event == record.EventStart:
		anchor(record.EventStart)
	}
	for _, r := range batch {
		if chain.Due(r.Time) {
			anchor(record.EventRecords)
		}
		add(r)
	}
	if event == record.EventRecords || event == record.EventStop {
		anchor(event)
	}
	err = w.out.write(w.give, w.entries)
	if no, ok := errors.AsType[*refusal](err); err != nil && (!ok || !no.taken) {
		return err
	}
	w.chain, w.begun, w.unsettled = chain, true, true
	w.metrics.records.Add(float64(len(w.entries)))
	if at.fresh || event == record.EventStop {
		// The log is another place: what it says of a chain shows if its end is cut off later.
		w.deps.Log.Info("audit: anchor", "sink", w.sink.Name, "chain", chain.Name, "record", chain.Seq, "hash",
			chain.Last.String())
	}
	if cap(w.text) > keptText {
		w.text = nil
	}
	clear(w.entries) // releases the records
	return err
}

// note logs when a sink begins to fail, and when it works again.
func (w *worker) note(err error) {
	switch {
	case err != nil:
		w.metrics.failures.Inc()
		if !w.failing && w.give.Err() == nil {
			message := "audit: a sink fails: it is tried again, and records wait for it"
			if no, ok := errors.AsType[*refusal](err); ok && (no.taken || no.final && !w.block) {
				message = "audit: a receiver refuses records: they are lost"
			}
			w.deps.Log.Error(message, failure.AuditSinkDown.Attr(), "sink", w.sink.Name, "on_full", onFull(w.block),
				"error", err)
		}
	case w.failing:
		w.deps.Log.Info("audit: a sink goes on", "sink", w.sink.Name)
	}
	w.failing = err != nil
	w.fails(err)
}

// countOf returns how many records a batch stands for, and how many of them already count as lost.
func countOf(batch []*record.Record) (n, before int64) {
	for _, r := range batch {
		if r.Kind == record.KindGap {
			n, before = n+r.Count, before+r.Count
		} else {
			n++
		}
	}
	return n, before
}

func onFull(block bool) string {
	if block {
		return OnFullBlock
	}
	return OnFullDrop
}
