package main

import (
	"strings"
	"testing"
	"time"
)

// TestLedger: the ledger finds every violation, and nothing else.
func TestLedger(t *testing.T) {
	good := outcome{kind: answered}
	failed := outcome{kind: "50201", executed: "unknown"}
	refusedOne := outcome{kind: "50201", executed: executedNo}
	for _, tt := range []struct {
		name string
		do   func(l *ledger)
		want string // part of the only violation; "" for none
	}{
		{"answered", func(l *ledger) { l.send("a", "call"); l.run("a", 0); l.settle("a", good) }, ""},
		{"in two rounds", func(l *ledger) { l.send("a", "call"); l.run("a", 0); l.run("a", 1); l.settle("a", good) }, ""},
		{"cancelled before it ran", func(l *ledger) { l.send("a", "call"); l.settle("a", outcome{kind: cancelled}) }, ""},
		{"failed during a fault", func(l *ledger) {
			w := l.begin("server killed", []string{"50201"})
			l.send("a", "call")
			l.settle("a", failed)
			l.end(w, 0)
		}, ""},
		{"began during a fault", func(l *ledger) {
			w := l.begin("server killed", []string{"50201"})
			l.send("a", "call")
			l.end(w, 0)
			l.settle("a", failed)
		}, ""},
		{"failed without a fault", func(l *ledger) { l.send("a", "call"); l.settle("a", failed) },
			"no fault explains (faults: none)"},
		{"failed after a fault", func(l *ledger) {
			l.end(l.begin("server killed", []string{"50201"}), 0)
			l.send("a", "call")
			l.settle("a", failed)
		}, "no fault explains (faults: none)"},
		{"failed as a consequence of a fault", func(l *ledger) {
			l.end(l.begin("server killed", []string{"50201"}), time.Minute)
			l.send("a", "call")
			l.settle("a", failed)
		}, ""},
		{"did not run again", func(l *ledger) {
			l.begin("server killed", []string{"50201"})
			l.send("a", "call")
			l.run("a", 0)
			l.settle("a", outcome{kind: "50201", executed: executedNo, round: 1})
		}, ""},
		{"failed in another way", func(l *ledger) {
			l.begin("issuer fails", []string{"50303"})
			l.send("a", "call")
			l.settle("a", failed)
		}, "no fault explains (faults: issuer fails)"},
		{"a session that was lost before", func(l *ledger) {
			began := time.Now()
			l.end(l.begin("Redis killed and empty", []string{sessionLost}), 0)
			l.send("a", "call")
			l.settle("a", outcome{kind: sessionLost, session: began})
		}, ""},
		{"a session that began after it was lost", func(l *ledger) {
			l.end(l.begin("Redis killed and empty", []string{sessionLost}), 0)
			l.send("a", "call")
			l.settle("a", outcome{kind: sessionLost, session: time.Now()})
		}, "no fault explains (faults: none)"},
		{"failed at the server of a fault", func(l *ledger) {
			l.concerns(l.begin("server killed", []string{"50201"}), "s")
			l.send("a", "call")
			l.settle("a", outcome{kind: "50201", server: "s"})
		}, ""},
		{"failed at another server", func(l *ledger) {
			l.concerns(l.begin("server killed", []string{"50201"}), "s")
			l.send("a", "call")
			l.settle("a", outcome{kind: "50201", server: "other"})
		}, "no fault explains (faults: server killed)"},
		{"a list failed", func(l *ledger) { l.note("list", l.began, failed) }, "list"},
		{"ran twice", func(l *ledger) { l.send("a", "call"); l.run("a", 0); l.run("a", 0); l.settle("a", good) },
			"ran 2 times (round 0)"},
		{"too many rounds",
			func(l *ledger) { l.send("a", "call"); l.run("a", 0); l.run("a", maxRounds); l.settle("a", good) }, "in round 4"},
		{"nobody's call", func(l *ledger) { l.run("a", 0) }, "a call that nobody made"},
		{"ended twice", func(l *ledger) { l.send("a", "call"); l.run("a", 0); l.settle("a", good); l.settle("a", good) },
			"ended twice"},
		{"answered by nobody", func(l *ledger) { l.send("a", "call"); l.settle("a", good) }, "no server has seen it"},
		{"never ended", func(l *ledger) { l.send("a", "call"); l.run("a", 0) }, "neither answered nor failed"},
		{"said not to have run", func(l *ledger) {
			l.begin("server killed", []string{"50201"})
			l.send("a", "call")
			l.run("a", 0)
			l.settle("a", refusedOne)
		}, "is told that it did not"},
		{"run afterwards", func(l *ledger) {
			l.begin("server killed", []string{"50201"})
			l.send("a", "call")
			l.settle("a", refusedOne)
			l.run("a", 0)
		}, "its client was told that it did not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			tt.do(l)
			l.balance()
			text, wrong := l.report()
			if (wrong > 0) != (tt.want != "") || wrong > 1 || !strings.Contains(text, tt.want) {
				t.Errorf("%d violations, want %q:\n%s", wrong, tt.want, text)
			}
		})
	}
}

// TestLedgerIsBounded: violations beyond the bound are counted.
func TestLedgerIsBounded(t *testing.T) {
	l := newLedger()
	for range maxWrongs + 5 {
		l.violation("wrong")
	}
	if text, wrong := l.report(); wrong != maxWrongs+5 || strings.Count(text, "VIOLATION") != maxWrongs ||
		!strings.Contains(text, "and 5 more") {
		t.Errorf("%d violations:\n%s", wrong, text)
	}
}

// TestActionsAreReplayed: with the same seed each client performs the same actions.
func TestActionsAreReplayed(t *testing.T) {
	draw := func(seed uint64) (drawn []int) {
		c := newClient(3, seed, newLedger(), nil, "", "", nil)
		for range 50 {
			drawn = append(drawn, c.rand.IntN(1000))
		}
		return drawn
	}
	same := func(a, b []int) bool {
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	if a := draw(1); !same(a, draw(1)) || same(a, draw(2)) {
		t.Error("a seed does not say what is done")
	}
}
