package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxWrongs bounds the violations that are kept; further ones are only counted.
	maxWrongs = 100
	// maxCalls bounds the calls of a run, and so the ledger.
	maxCalls = 3_000_000
	// maxRounds exceeds the rounds of any call.
	maxRounds = 4
)

// stalled is the name of the window in which the machine is overloaded.
const stalled = "the machine stalls"

// ledger records what was sent, what ran and what came back.
type ledger struct {
	began     time.Time
	told      io.Writer // log of faults
	explained io.Writer // log of failures that faults explain

	mu      sync.Mutex // guards the fields below
	calls   map[string]*entry
	open    int
	windows []*window
	counts  map[string]map[string]int // by action and outcome
	wrongs  []string
	wrong   int
}

// entry is one call, by its nonce.
type entry struct {
	action  string
	sent    time.Time
	runs    [maxRounds]uint8 // runs at its server, by round
	settled bool
	touched int // streams on which its server announced an update
	refused int // first round whose failure said that it did not run; 0 for none
}

// window is the time of a fault, from its beginning until its consequences are over.
type window struct {
	name                string
	server              string    // the server that fails, "" for none
	from, healed, until time.Time // healed and until are zero during the fault
	allows              []string
	ofStore             bool
}

func newLedger() *ledger {
	return &ledger{began: time.Now(), told: io.Discard, explained: io.Discard, calls: map[string]*entry{},
		counts: map[string]map[string]int{}}
}

// send records that a call is about to be made. It reports false when the ledger is full.
func (l *ledger) send(nonce, action string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) >= maxCalls {
		return false
	}
	l.calls[nonce] = &entry{action: action, sent: time.Now()}
	l.open++
	return true
}

// run records that a server runs a call. Each round may run once: the gateway repeats only
// what certainly did not run.
func (l *ledger) run(nonce string, round int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.calls[nonce]
	switch {
	case e == nil:
		l.addWrong("a server was given a call that nobody made: %q", nonce)
	case round < 0 || round >= maxRounds:
		l.addWrong("%s %s came to its server in round %d", e.action, nonce, round)
	case e.runs[round] > 0:
		e.runs[round]++
		l.addWrong("%s %s ran %d times (round %d)", e.action, nonce, e.runs[round], round)
	case e.refused > 0 && round >= e.refused-1:
		l.addWrong("%s %s ran, and its client was told that it did not", e.action, nonce)
	default:
		e.runs[round]++
	}
}

// touch records on how many streams the server of a call announced an update.
func (l *ledger) touch(nonce string, streams int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.calls[nonce]; e != nil {
		e.touched = streams
	}
}

// touched returns the number of streams that touch recorded.
func (l *ledger) touched(nonce string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[nonce].touched
}

// settle records how a call ended. Each call settles once.
func (l *ledger) settle(nonce string, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.calls[nonce]
	if e == nil || e.settled {
		l.addWrong("call %s ended twice, now: %s %s", nonce, o.kind, o.detail)
		return
	}
	e.settled = true
	l.open--
	l.count(e.action, o.kind)
	switch {
	case !o.failed() && o.kind == answered && e.runs[0] == 0:
		l.addWrong("%s %s was answered, and no server has seen it: %s", e.action, nonce, o.detail)
	case !o.failed():
	case o.executed == executedNo && slices.Max(e.runs[o.round:]) > 0:
		l.addWrong("%s %s ran, and its client is told that it did not: %s %s", e.action, nonce, o.kind, o.detail)
	default:
		if o.executed == executedNo {
			e.refused = o.round + 1
		}
		l.judge(e.action, nonce, e.sent, o)
	}
}

// note counts a request that is no call: a session, a list, a subscription.
func (l *ledger) note(action string, from time.Time, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(action, o.kind)
	if o.failed() {
		l.judge(action, "", from, o)
	}
}

// judge checks that a fault explains a failure. The caller holds mu.
func (l *ledger) judge(action, nonce string, from time.Time, o outcome) {
	// it may be lost at any time since it began, and shows only when it is used
	if o.kind == sessionLost && !o.session.IsZero() {
		from = o.session
	}
	var during []string
	for _, w := range l.windows {
		if !w.until.IsZero() && w.until.Before(from) {
			continue
		}
		if slices.Contains(w.allows, o.kind) && (w.server == "" || w.server == o.server) {
			fmt.Fprintf(l.explained, "%s %s %s failed after %s with %s, as of %s: %s\n",
				l.at(time.Now()), action, nonce, time.Since(from).Round(time.Millisecond), o.kind, w.name, o.detail)
			return
		}
		during = append(during, w.name)
	}
	l.addWrong("%s %s failed after %s with %s, which no fault explains (faults: %s): %s",
		action, nonce, time.Since(from).Round(time.Millisecond), o.kind, orNone(during), o.detail)
}

// begin opens the window of a fault. allows are the failures that it explains.
func (l *ledger) begin(name string, allows []string) *window {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &window{name: name, from: time.Now(), allows: allows, ofStore: strings.HasPrefix(name, "Redis")}
	l.windows = append(l.windows, w)
	return w
}

// duringStoreFault reports whether a fault of Redis is being injected.
func (l *ledger) duringStoreFault() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.windows, func(w *window) bool { return w.ofStore && w.healed.IsZero() })
}

// concerns limits a fault to one server.
func (l *ledger) concerns(w *window, server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.server = server
}

// detail records what a fault affected.
func (l *ledger) detail(w *window, of string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of != "" {
		w.name += " (" + of + ")"
	}
}

// end closes a window after a delay, during which consequences of the fault may still show.
func (l *ledger) end(w *window, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.healed = time.Now()
	w.until = w.healed.Add(after)
	if w.name != stalled {
		fmt.Fprintf(l.told, "%s  %s, all healed after %s\n", l.at(w.from), w.name,
			w.healed.Sub(w.from).Round(time.Millisecond))
	}
}

// violation records something that must not happen.
func (l *ledger) violation(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addWrong(format, args...)
}

// addWrong is violation with mu held.
func (l *ledger) addWrong(format string, args ...any) {
	l.wrong++
	if len(l.wrongs) < maxWrongs {
		l.wrongs = append(l.wrongs, l.at(time.Now())+" "+fmt.Sprintf(format, args...))
	}
}

// at formats a time for the report.
func (l *ledger) at(t time.Time) string { return fmt.Sprintf("%7.3fs", t.Sub(l.began).Seconds()) }

// balance looks for calls without an end, after all clients have stopped.
func (l *ledger) balance() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == 0 {
		return
	}
	for nonce, e := range l.calls {
		if !e.settled {
			l.addWrong("%s %s was neither answered nor failed", e.action, nonce)
		}
	}
}

// count counts an outcome. The caller holds mu.
func (l *ledger) count(action, kind string) {
	if l.counts[action] == nil {
		l.counts[action] = map[string]int{}
	}
	l.counts[action][kind]++
}

// report returns the whole ledger as text, and the number of violations.
func (l *ledger) report() (text string, wrong int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d calls in %s, and how they and all else ended:\n", len(l.calls),
		time.Since(l.began).Round(time.Second))
	for _, action := range slices.Sorted(maps.Keys(l.counts)) {
		kinds := l.counts[action]
		fmt.Fprintf(&b, "  %-28s %8d %s", action, kinds[answered], answered)
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			if kind != answered {
				fmt.Fprintf(&b, "  %s: %d", kind, kinds[kind])
			}
		}
		b.WriteString("\n")
	}
	if stalls, slow := l.stalls(); stalls > 0 {
		fmt.Fprintf(&b, "the machine had no time for Redis, %d times, for %s together\n", stalls,
			slow.Round(time.Millisecond))
	}
	for _, text := range l.wrongs {
		fmt.Fprintf(&b, "VIOLATION %s\n", text)
	}
	if l.wrong > len(l.wrongs) {
		fmt.Fprintf(&b, "and %d more\n", l.wrong-len(l.wrongs))
	}
	return b.String(), l.wrong
}

// stalls returns how often and how long the machine stalled. The caller holds mu.
func (l *ledger) stalls() (count int, slow time.Duration) {
	for _, w := range l.windows {
		if w.name == stalled {
			count++
			slow += w.healed.Sub(w.from)
		}
	}
	return count, slow
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
