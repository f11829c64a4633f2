package front

import (
	"context"
	"time"
)

// A letter that must not be lost is sent until the other replica says that it has come.
// Redis fails now and then, for all replicas at the same moment, and those listen to it
// again one after another.

const (
	// answerTime is how long what must not be lost is brought to another replica, an answer
	// of the client say, and answerAgain after what time without a word it is brought again.
	answerTime  = 10 * time.Second
	answerAgain = time.Second
	// maxBrought bounds the letters that are brought while nobody waits for it; others are
	// sent once.
	maxBrought = 4096
)

// bring sends a letter to another replica until that says that it has come. It is false when
// nobody knows after answerTime; one that has gone needs no letters.
func (f *Front) bring(ctx context.Context, replica string, m letter) bool {
	m.Receipt = f.callID()
	p := &pending{reply: make(chan letter, 1)}
	defer f.expectFrom(m.Receipt, p)()
	gone, unwatch := f.mail.Watch(replica)
	defer unwatch()
	enough := time.NewTimer(answerTime)
	defer enough.Stop()
	again := time.NewTicker(answerAgain)
	defer again.Stop()
	for {
		f.tell(context.WithoutCancel(ctx), replica, m)
		select {
		case <-p.reply:
			return true
		case <-gone:
			return true
		case <-again.C:
		case <-enough.C:
			return false
		case <-ctx.Done():
			return true // nobody wants to know
		}
	}
}

// bringAside brings a letter that nobody waits for, until this replica stops.
func (f *Front) bringAside(replica string, m letter) {
	if f.brought.Add(1) > maxBrought || !f.begin() {
		f.brought.Add(-1)
		f.tell(context.Background(), replica, m)
		return
	}
	go func() {
		defer f.done()
		defer f.brought.Add(-1)
		f.bring(f.draining, replica, m)
	}()
}

// announce sends a letter to all other replicas, again until Redis has taken it, which is
// for answerTime at most. It waits for the first try alone.
func (f *Front) announce(ctx context.Context, m letter) {
	ctx = context.WithoutCancel(ctx)
	if f.mail == nil || f.tell(ctx, everyone, m) {
		return
	}
	if f.brought.Add(1) > maxBrought || !f.begin() {
		f.brought.Add(-1)
		return
	}
	go func() {
		defer f.done()
		defer f.brought.Add(-1)
		enough := time.NewTimer(answerTime)
		defer enough.Stop()
		again := time.NewTicker(answerAgain)
		defer again.Stop()
		for {
			select {
			case <-again.C:
			case <-enough.C:
				return
			case <-f.drain:
				return
			}
			if f.tell(ctx, everyone, m) {
				return
			}
		}
	}()
}

// take says that a letter has come, if its sender wants to know. That waits for nothing
// that waits for such a word itself.
func (f *Front) take(l letter) {
	if l.Receipt == "" || !isReplica(l.From) {
		return
	}
	f.beside(func() { f.tell(context.Background(), l.From, letter{Kind: mailTaken, Number: l.Receipt}) })
}
