package audit

import "time"

// Status is the state of a sink.
type Status struct {
	Name, Where string
	// Failing is since when the sink cannot be written to, or refuses what it gets; zero if it
	// works. Error is why.
	Failing time.Time
	Error   string
	// Queued is how many records wait for it. Holds says that calls wait, because there is no room
	// for more.
	Queued int
	Holds  bool
	// Lost counts the records that it has not got since the start, LastLost is when the last one
	// was lost.
	Lost     int64
	LastLost time.Time
}

// Status returns the state of each sink, in the order of the configuration.
func (j *Journal) Status() (all []Status) {
	if j == nil {
		return nil
	}
	j.mu.RLock()
	defer j.mu.RUnlock()
	for _, w := range j.workers {
		all = append(all, w.status())
	}
	return all
}

func (w *worker) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.trouble
	now.Name, now.Where = w.sink.Name, w.sink.Where()
	now.Queued, now.Holds = len(w.pending), w.block && (len(w.pending) >= w.limit || w.bytes >= queueBytes)
	return now
}

// fails notes how an attempt to write went.
func (w *worker) fails(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.trouble.Failing, w.trouble.Error = time.Time{}, ""
		return
	}
	if w.trouble.Failing.IsZero() {
		w.trouble.Failing = time.Now()
	}
	w.trouble.Error = err.Error()
}

// missed counts lost records. The caller holds mu.
func (w *worker) missed(n int64) {
	w.metrics.dropped.Add(float64(n))
	if n > 0 {
		w.trouble.Lost += n
		w.trouble.LastLost = time.Now()
	}
}
