package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"
)

// broadcast is the channel that all replicas hear.
const broadcast = "all"

const (
	// largeMail is the longest message that is itself published: Redis disconnects
	// listeners whose backlog grows too large. A longer one is kept under a key for
	// largeTime, and what is published is that key.
	largeMail = 128 << 10
	largeTime = time.Minute
	// maxLarge bounds how many of those are fetched at a time, and maxUncollected how many
	// are fetched or wait for their turn, of which only the keys are in memory.
	maxLarge       = 64
	maxUncollected = 10_000
)

func channelOf(replica string) string { return "to:" + replica }

// Mailbox is how replicas of the gateway talk to each other. A message may be lost, with
// the connection or with the replica: a sender who has to know that it came asks for an
// answer. Messages are sealed and numbered: whoever else can use the same Redis can neither
// read nor make one, nor have one come again.
type Mailbox interface {
	// Self is the name of this replica: lower-case letters and digits, another one each
	// time that it starts.
	Self() string
	// Send sends a message to one replica, Broadcast to all others; each hands it to
	// Deps.OnMail, once. Errors: ErrUnavailable, with ErrUnsure where it may yet arrive; of
	// Send ErrNobody, when the replica does not listen, for a moment or for ever.
	Send(ctx context.Context, replica string, message []byte) error
	Broadcast(ctx context.Context, message []byte) error
	// Watch returns what is closed when a replica has gone: Redis has not heard of it for
	// some ten seconds. It may run on, cut off from the others: what it writes to a stream
	// that they have finished is refused. stop ends the watching.
	Watch(replica string) (gone <-chan struct{}, stop func())
	// Present reports whether a replica is there, as Watch sees it; also where nobody can
	// know.
	Present(ctx context.Context, replica string) bool
}

// Self is the name of this replica.
func (s *Redis) Self() string { return s.self }

// Send sends a message to one replica; see Mailbox. A large one to a replica that is not
// there, whose name may be a client's invention, is lost at once: nobody would collect it.
func (s *Redis) Send(ctx context.Context, replica string, message []byte) error {
	if len(message) > largeMail && !s.Present(ctx, replica) {
		return ErrNobody
	}
	heard, err := s.post(ctx, channelOf(replica), saidMail, message)
	if err == nil && !heard {
		err = ErrNobody
	}
	return err
}

// Broadcast sends a message to all other replicas; see Mailbox.
func (s *Redis) Broadcast(ctx context.Context, message []byte) error {
	_, err := s.post(ctx, broadcast, saidMail, message)
	return err
}

// post reports whether anybody may have heard it.
func (s *Redis) post(ctx context.Context, channel string, said byte, message []byte) (heard bool, err error) {
	if s.closed.Load() {
		return false, ErrUnavailable
	}
	form := letterWhole
	if len(message) > largeMail {
		key := "x:" + rand.Text()
		sealed := s.seals.letters.SealBytes(message, key)
		if _, err := s.db.Run(ctx, s.scripts.leave, []string{s.db.Key(key)}, sealed, largeTime.Milliseconds()); err != nil {
			return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		form, message = letterLarge, []byte(key)
	}
	letter := append([]byte{said}, s.self...)
	letter = append(letter, ' ')
	letter = append(letter, s.seals.letters.SealBytes(writeLetter(s.sent.Add(1), form, message), s.self, channel, string(said))...)
	if heard, err = s.db.Publish(ctx, channel, letter); err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return heard, nil
}

// hear takes what replicas, this one too, say to this one or to all.
func (s *Redis) hear(channel, payload string) {
	if payload == "" {
		return
	}
	said, rest := payload[0], payload[1:]
	switch said {
	case saidNews:
		s.wake(rest)
	case saidEnded:
		if n, ok := nameOf(rest); ok {
			if tell := s.forget(n, s.count.deleted); tell != nil {
				s.following.Go(tell) // which may take time, and this must not
			}
		}
	case saidUpdated: // by this replica, too: it may have been told that the change failed
		_, rest, _ := strings.Cut(rest, " ")
		if n, ok := nameOf(rest); ok {
			if h := s.copyOf(n); h != nil {
				h.doubt()
			}
		}
	case saidMail, saidBinding:
		s.open(channel, said, rest)
	}
}

// open takes a letter, unless it has come before or no replica has written it for here.
func (s *Redis) open(channel string, said byte, letter string) {
	from, sealed, _ := strings.Cut(letter, " ")
	if from == s.self {
		return
	}
	plain, err := s.seals.letters.OpenBytes([]byte(sealed), from, channel, string(said))
	number, form, message, ok := readLetter(plain)
	if err != nil || !ok {
		s.count.unopened.Inc()
		s.db.Unopened("letter")
		return
	}
	if !s.letters.first(from, number) {
		s.count.repeated.Inc()
		return
	}
	take := s.onMail
	if said == saidBinding {
		take = s.onBindings
	}
	if form == letterLarge {
		s.collect(string(message), channel != broadcast, take)
		return
	}
	take(message)
}

// collect fetches a message that was too large to be published, and hands it to take. mine
// says that it is for this replica alone, which then deletes it.
func (s *Redis) collect(key string, mine bool, take func(message []byte)) {
	if !strings.HasPrefix(key, "x:") || !validID(key[len("x:"):]) {
		return
	}
	if s.uncollected.Add(1) > maxUncollected {
		s.uncollected.Add(-1)
		s.count.uncollected.Inc()
		s.log.Warn("too many large messages of other replicas at a time: one was dropped")
		return
	}
	s.following.Go(func() { // ends within the time limits of Redis
		defer s.uncollected.Add(-1)
		s.collecting <- struct{}{}
		defer func() { <-s.collecting }()
		ctx := context.Background()
		got, err := s.db.Run(ctx, s.scripts.collect, []string{s.db.Key(key)})
		sealed, _ := got.(string)
		message, invalid := s.seals.letters.OpenBytes([]byte(sealed), key)
		if err == nil {
			err = invalid // or it was there no more
		}
		if err != nil {
			s.count.uncollected.Inc()
			s.log.Warn("a large message of another replica is lost", "error", err)
			return
		}
		if mine {
			_, _ = s.db.Run(ctx, s.scripts.discard, []string{s.db.Key(key)}) // or it ends by itself
		}
		take(message)
	})
}
