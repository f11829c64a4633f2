package e2e

import (
	"fmt"
	"slices"
)

// step is a possible next step.
type step struct {
	name string
	do   func()
}

// steps returns all steps that are possible now. They depend only on the steps so far,
// never on what was seen, so that a sequence can be repeated.
func (w *interleaving) steps() (all []step) {
	add := func(do func(), format string, args ...any) {
		all = append(all, step{fmt.Sprintf(format, args...), do})
	}
	for _, p := range w.players {
		for _, at := range w.stages {
			if len(w.calls) < maxCalls {
				add(func() { w.call(p, at) }, "%s calls %s", p.name, at.name)
			}
		}
	}
	for _, c := range w.calls {
		w.serverSteps(c, add)
		w.clientSteps(c, add)
	}
	for _, p := range w.players {
		if p.stateful() {
			add(func() { w.endSession(p) }, "%s ends its session and begins another", p.name)
		}
	}
	if len(w.calls) > 0 {
		add(w.settle, "wait until all is seen")
	}
	return all
}

func (w *interleaving) serverSteps(c *call, add func(func(), string, ...any)) {
	if !c.playing() {
		return
	}
	for _, kind := range []string{"progress", "log"} {
		if kind == "log" && c.at.piped {
			continue
		}
		add(func() { c.report(kind) }, "%s: %s of %s", c.at.name, kind, c)
	}
	if len(c.asked) == 0 && !c.deaf && !(c.at.piped && c.at.stateful) {
		for n := range 2 {
			add(func() { c.ask(n + 1) }, "%s asks %s %d", c.at.name, c, n+1)
		}
	}
	for _, how := range []string{"ends", "fails", "dies"} {
		if how == "dies" && c.at.piped { // and all other calls with it
			continue
		}
		add(func() { c.finish(how) }, "%s: %s %s", c.at.name, c, how)
	}
}

func (w *interleaving) clientSteps(c *call, add func(func(), string, ...any)) {
	p := c.by
	switch {
	case c.over || c.left:
		return
	case !p.stateful() && len(c.asked) > 0:
		add(c.answer, "%s answers %s", p.name, c)
		add(func() { c.left = true }, "%s leaves %s unanswered", p.name, c)
		return
	case !p.stateful():
		if !c.deaf {
			add(c.hangUp, "%s hangs up on %s", p.name, c)
		}
		return
	}
	add(c.cancel, "%s cancels %s", p.name, c)
	if c.open() && len(c.asked) > 0 && c.finished == "" {
		add(c.answer, "%s waits and answers %s", p.name, c)
	}
	if c.away {
		add(func() { c.away = false; c.resume() }, "%s resumes %s", p.name, c)
	} else if !c.deaf {
		add(c.forsake, "%s drops %s for good", p.name, c)
		if len(c.must) > 0 && c.finished == "" {
			add(func() { c.settle(); c.away = true; c.drop() }, "%s waits and drops %s", p.name, c)
		}
	}
	if c.replay != nil {
		add(func() { p.reply(*c.replay) }, "%s answers %s once more", p.name, c)
	}
	for _, other := range w.players {
		if other == p || !other.stateful() {
			continue
		}
		if c.open() && len(c.asked) > 0 && c.finished == "" {
			add(func() { other.reply(c.nextQuestion()) }, "%s waits and answers for %s", other.name, c)
		}
		if !slices.ContainsFunc(w.calls, func(o *call) bool { return o.by == other && o.id == c.id }) {
			add(func() { other.sayCancelled(c.id) }, "%s cancels the id of %s", other.name, c)
		}
	}
}
