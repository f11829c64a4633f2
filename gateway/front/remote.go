package front

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Replicas of the gateway share sessions, and any of them may get any request of one.
// What belongs to a call that runs at another replica is sent there: this file has what
// is sent, remote_call.go calls that only another replica can go on with,
// remote_direct.go calls in sessions of upstreams that only another replica has,
// remote_standing.go and remote_cede.go which of them listens for a session, and
// remote_oldsse.go messages for a stream of HTTP+SSE. session.Mailbox seals the letters.
// Where there is one gateway alone, nothing of it happens.

const (
	// mailTime bounds what a letter from another replica may set off here, but for calls.
	mailTime = 30 * time.Second
	// maxMail bounds how much of that happens at a time, and maxUnread what waits for its
	// turn: when a replica stops, all its sessions come to the others.
	maxMail   = 256
	maxUnread = 16_384
	// everyone stands for the receiver of a broadcast.
	everyone = "*"
)

// Kinds of letters.
const (
	mailAnswer      = "answer"      // of the client, to a question
	mailTaken       = "taken"       // what had that number has come
	mailCancel      = "cancel"      // by the client
	mailRoots       = "roots"       // the client has other ones
	mailInitialized = "initialized" // the client is
	mailMoves       = "moves"       // the sender has the session's newest stream
	mailMine        = "mine"        // the sender listens for the session now
	mailLeft        = "left"        // the last stream of the session at the sender has ended
	mailSubscribed  = "subscribed"  // the session's subscriptions have changed
	mailEvents      = "events"      // for the session's stream
	mailCall        = "call"        // to be gone on with
	mailDrop        = "drop"        // its caller has left
	mailBegan       = "began"       // a call is being served, and again from time to time
	mailEvent       = "event"       // of a call
	mailReply       = "reply"       // of a call, or to a message
	mailPosted      = "posted"      // a message for a stream of HTTP+SSE
)

// letter is a message of one replica to another.
type letter struct {
	Kind    string        `json:"kind"`
	From    string        `json:"from"`
	Session string        `json:"session,omitempty"`
	ID      []byte        `json:"id,omitempty"`     // of a request or a question, as on the wire
	Stream  string        `json:"stream,omitempty"` // that its client has given up
	URIs    []string      `json:"uris,omitempty"`   // of the resources that the sender listens to
	Before  string        `json:"before,omitempty"` // the replica that listened until then
	Result  []byte        `json:"result,omitempty"` // or a whole message
	Error   []byte        `json:"error,omitempty"`
	Caller  []byte        `json:"caller,omitempty"`
	Events  []remoteEvent `json:"events,omitempty"`
	Call    *remoteCall   `json:"call,omitempty"`
	Number  string        `json:"number,omitempty"`  // of a call or a question to a replica, its caller's
	Receipt string        `json:"receipt,omitempty"` // the number under which its sender is told that it has come (bring)
	Reply   *remoteReply  `json:"reply,omitempty"`
	Place   string        `json:"place,omitempty"`   // where the call is made, past the pipeline (Deps.Direct)
	Stopped bool          `json:"stopped,omitempty"` // the call is only to be let go
	Status  int           `json:"status,omitempty"`  // of the answer to a POST, whose body is in Result
	Retry   string        `json:"retry,omitempty"`   // its Retry-After
}

type remoteEvent struct {
	Method string `json:"method"`
	Params []byte `json:"params,omitempty"`
}

// carry writes who calls, with their token: it stands nowhere unsealed.
func (f *Front) carry(c mcp.Caller) []byte {
	text, err := f.callers.Write(c)
	if err != nil {
		f.log.Error("a caller cannot be told to another replica", "error", err)
	}
	return text
}

// self is the name of this replica, "" where there is one gateway alone.
func (f *Front) self() string {
	if f.mail == nil {
		return ""
	}
	return f.mail.Self()
}

// send sends a letter to one replica, or to everyone else.
func (f *Front) send(ctx context.Context, to string, l letter) error {
	l.From = f.mail.Self()
	plain, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if to == everyone {
		err = f.mail.Broadcast(ctx, plain)
	} else {
		err = f.mail.Send(ctx, to, plain)
	}
	f.metrics.letter(err)
	return err
}

// tell sends a letter that may be lost, and reports whether it may have come.
func (f *Front) tell(ctx context.Context, to string, l letter) bool {
	if f.mail == nil {
		return false
	}
	err := f.send(ctx, to, l)
	if err != nil && !errors.Is(err, session.ErrNobody) {
		f.log.Warn("another replica could not be told something", "what", l.Kind, "error", err)
	}
	return err == nil
}

// Mail takes a letter from another replica (session.Deps.OnMail). It does not wait.
func (f *Front) Mail(message []byte) {
	var l letter
	if err := json.Unmarshal(message, &l); err != nil {
		f.metrics.lettersLost.Inc()
		f.log.Warn("a letter of another replica cannot be read: it may be of another version", "error", err)
		return
	}
	f.metrics.lettersReceived.Inc()
	switch l.Kind {
	case mailReply:
		f.take(l)
		f.returned(l)
		return
	case mailBegan, mailEvent, mailTaken:
		f.returned(l)
		return
	case mailAnswer:
		f.answerCame(l)
		return
	case mailCall:
		f.take(l)
		f.serveRemote(l)
		return
	case mailDrop:
		f.take(l)
		f.dropRemote(l)
		return
	case mailPosted:
		f.takePosted(l)
		return
	}
	if live := f.known(l.Session); live != nil {
		f.mailFor(live, l)
	} else if l.Kind == mailRoots && f.onRoots != nil {
		f.beside(func() { f.onRoots(l.Session) })
	}
}

// mailFor takes a letter for a session that something is held of.
func (f *Front) mailFor(live *live, l letter) {
	switch l.Kind {
	case mailCancel:
		f.beside(func() { live.cancel(l.ID) })
	case mailRoots:
		f.beside(func() {
			live.rootsChanged()
			if f.onRoots != nil {
				f.onRoots(l.Session)
			}
		})
	case mailEvents:
		f.beside(func() { live.handedOn(l.Events) })
	case mailInitialized, mailLeft, mailSubscribed:
		f.apart(func(ctx context.Context) { live.standOn(ctx, l) })
	case mailMoves:
		f.apart(func(ctx context.Context) { live.moves(ctx, l) })
	case mailMine:
		f.apart(func(ctx context.Context) { live.yield(ctx, l) })
	}
}

// apart does something that takes time, for which nobody waits but the end of Close: until
// then, others may have to be told something.
func (f *Front) apart(do func(context.Context)) {
	f.beside(func() {
		f.mailing <- struct{}{}
		defer func() { <-f.mailing }()
		ctx, cancel := context.WithTimeout(context.Background(), mailTime)
		defer cancel()
		do(ctx)
	})
}

// beside does at once what may have to wait for the lock of a session, under which Redis
// is written to: whoever hears the letters must not wait for that. It is false, and nothing
// is done, when the front has closed.
func (f *Front) beside(do func()) bool {
	if f.unread.Add(1) > maxUnread {
		f.unread.Add(-1)
		f.metrics.lettersLost.Inc()
		f.log.Warn("too much comes from other replicas: a letter was dropped")
		return true
	}
	f.mu.Lock()
	silent := f.silent
	if !silent {
		f.letters.Add(1)
	}
	f.mu.Unlock()
	if silent {
		f.unread.Add(-1)
		return false
	}
	go func() {
		defer f.letters.Done()
		defer f.unread.Add(-1)
		do()
	}()
	return true
}

// askedAt is the replica that has put a question of this id, "" for this one, or for no
// id of ours.
func (f *Front) askedAt(id mcp.Raw) string {
	rest, ours := strings.CutPrefix(id.Text(), questionPrefix)
	replica, _, found := strings.Cut(rest, "-")
	if f.mail == nil || !ours || !found || replica == f.mail.Self() || !isReplica(replica) {
		return ""
	}
	return replica
}

// isReplica reports whether a name could be one that Mailbox.Self has.
func isReplica(name string) bool {
	return name != "" && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// answered hands an answer of the client to whoever waits for it, here or elsewhere. One
// that nobody waits for is dropped. It is refused when nobody can know.
func (f *Front) answered(ctx context.Context, record session.Record, m wire.Message, from mcp.Caller) *refuse.Refusal {
	if replica := f.askedAt(m.ID); replica != "" {
		return f.carryAnswer(ctx, replica, letter{Kind: mailAnswer, Session: record.Key(), ID: m.ID, Result: m.Result, Error: m.Error, Caller: f.carry(from)})
	}
	if l := f.known(record.Key()); l != nil {
		l.answered(m, from)
	}
	return nil
}

// answerCame takes an answer that another replica has carried here, which is told so
// whether or not somebody waits for it.
func (f *Front) answerCame(l letter) {
	from, err := f.callers.Read(l.Caller)
	if err != nil {
		f.log.Error("an answer came from another replica without who gave it", "error", err)
		return
	}
	f.beside(func() {
		if live := f.known(l.Session); live != nil {
			live.answered(wire.Message{Kind: wire.Response, ID: l.ID, Result: l.Result, Error: l.Error}, from)
		}
		f.take(l)
	})
}

// carryAnswer brings an answer to the replica that asked. The user has given it once: it
// is sent until it has come, which to the other replica is the same as once.
func (f *Front) carryAnswer(ctx context.Context, replica string, l letter) *refuse.Refusal {
	if !f.bring(ctx, replica, l) {
		return refuse.Store()
	}
	return nil // taken, or gone with its call, of which the call's stream tells
}
