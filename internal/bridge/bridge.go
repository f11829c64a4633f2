// Package bridge carries MCP between a host on standard input and output and a server on HTTP. It relays the messages
// of every revision, and translates none.
//
// It owns the host's pipe and what waits for answers (bridge.go), requests with their headers, streams and errors
// (request.go), the session of a stateful host and its renewal (session.go), and when the user has to sign in
// (login.go). It leaves HTTP to upstream/transport, sign-ins to auth/accounts, and tokens to auth/vault. Run waits for
// what it starts, but for the reader of the input, which only the host ends.
package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/dial"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

const (
	// maxMessage bounds a message, in bytes, maxCalls how many requests of the host wait for answers.
	maxMessage = wire.DefaultMaxResult
	maxCalls   = 256
	// connectTime bounds a connection, postTime a message without an answer, and byeTime the end of a session.
	connectTime = 10 * time.Second
	postTime    = 30 * time.Second
	byeTime     = 2 * time.Second
	// lastWait is how long requests may still run when the host has closed the input.
	lastWait = 5 * time.Second
)

// errEnded is why requests end that still run after lastWait.
var errEnded = errors.New("the input has ended")

// Config says which server a bridge leads to, and how.
type Config struct {
	// URL is its endpoint: https, or http on a loopback address.
	URL string
	// Headers go with every request. With Authorization among them, there are no sign-ins.
	Headers map[string]mcp.Secret
	// CAFile has authorities, in PEM, in addition to those of the system. Default none.
	CAFile string
	// Directory keeps sign-ins, for this user alone. Bridges with the same one share them.
	Directory string
	// AuthorizationServer is the one to sign in at. Default: the first one that the server names.
	AuthorizationServer string
	// ClientID is that of this client at AuthorizationServer. Default: it registers itself.
	ClientID string
	// Open shows a page to the user, in a browser.
	Open func(url string)
	Log  *slog.Logger
}

// Bridge is a bridge for one host. Run may be called once.
type Bridge struct {
	log   *slog.Logger
	host  string // of the URL, for people
	dial  *dial.Transport
	http  *streamable.Transport
	plain *streamable.Conn // without a session
	login *login           // nil without sign-ins

	lasting context.Context // of streams that have no end; ends when the host closes the input
	opening sync.WaitGroup  // one for initialize; what follows it waits, and Run
	renewal sync.Mutex      // held while a session is renewed

	outMu sync.Mutex // guards out, and is held while a line is written
	out   io.Writer

	mu      sync.Mutex                    // guards the fields below; never held over I/O
	calls   map[string]context.CancelFunc // of requests that wait for answers, by their ids
	session *session                      // nil before initialize
	params  map[string][]wire.ParamHeader // of tools, by their names: see learn
	closed  bool
	wg      sync.WaitGroup // one for each other goroutine; Run waits
}

// ParseURL parses a URL that a bridge can lead to: credentials go to https and this machine alone.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !loopback.Host(u.Hostname())) {
		return nil, errors.New("want the URL of a server: https://mcp.example.com/mcp, or http:// on this machine")
	}
	return u, nil
}

// New makes a Bridge. It opens the state in Config.Directory, if sign-ins may be needed, and sends nothing.
func New(cfg Config) (*Bridge, error) {
	u, err := ParseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	route := egress.Config{TLS: egress.TLS{CAFile: cfg.CAFile}, URL: cfg.URL}
	b := &Bridge{log: cfg.Log, host: u.Host, calls: make(map[string]context.CancelFunc),
		params: make(map[string][]wire.ParamHeader)}
	over := streamable.Config{URL: cfg.URL, Headers: cfg.Headers}
	if _, fixed := cfg.Headers["Authorization"]; !fixed {
		if b.login, err = newLogin(cfg, u.Host, route); err != nil {
			return nil, err
		}
		over.Credentials = b.login
	}
	b.dial = dial.New(dial.Config{URL: cfg.URL, Timeout: connectTime, Standard: true, Route: route}, dial.NewMetrics(nil))
	over.HTTP = b.dial
	b.http = streamable.New(transport.Env{Name: u.Host, Log: cfg.Log, ResultBytes: maxMessage, Garbage: new(atomic.Int64),
		Spawn: func(f func()) { b.wg.Go(f) }}, over)
	b.plain = b.http.Conn(&transport.Identity{})
	return b, nil
}

// Run relays until the host closes the input, or ctx ends. Requests that run then have five seconds, and the
// session is ended at the server. The error says why the input cannot be read.
func (b *Bridge) Run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lasting, release := context.WithCancel(ctx)
	defer release()
	b.lasting, b.out = lasting, out
	read := make(chan error, 1)
	go func() { read <- b.read(ctx, in) }()
	select {
	case err = <-read:
		release()
		defer time.AfterFunc(lastWait, func() { cancel(errEnded) }).Stop()
	case <-ctx.Done():
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.opening.Wait()
	b.wg.Wait()
	if b.login != nil {
		b.login.close()
	}
	conn, _ := b.conn(wire.Message{})
	end(ctx, conn)
	b.dial.CloseIdleConnections()
	return err
}

// read takes what the host sends, until the input ends.
func (b *Bridge) read(ctx context.Context, in io.Reader) error {
	lines := wire.NewLineReader(in, maxMessage)
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, wire.ErrTooLarge):
			return fmt.Errorf("the host has sent a message of more than %d MiB", maxMessage>>20)
		case err != nil:
			return fmt.Errorf("reading from the host: %w", err)
		case len(bytes.TrimSpace(line)) > 0:
			b.take(ctx, bytes.Clone(line))
		}
	}
}

// take takes a line. The messages of an array (2025-03-26) go on one by one.
func (b *Bridge) take(ctx context.Context, line []byte) {
	if !wire.IsBatch(line) {
		m, err := wire.Scan(line)
		b.route(ctx, m, err)
		return
	}
	messages, errs, err := wire.ScanBatch(line)
	if err != nil {
		b.refuse(nil, err)
	}
	for i, m := range messages {
		b.route(ctx, m, errs[i])
	}
}

// route passes a message of the host on. All but requests keep their order: the server has taken one before the
// next is read.
func (b *Bridge) route(ctx context.Context, m wire.Message, err error) {
	switch {
	case err != nil:
		b.refuse(m.ID, err)
		return
	case m.Method == mcp.NoteCancelled:
		b.cancel(ctx, m)
		return
	case !stateless(m):
		b.opening.Wait() // it needs the session
	}
	if m.Kind == wire.Request {
		b.begin(ctx, m)
	} else {
		b.post(ctx, m)
	}
}

// begin begins a request.
func (b *Bridge) begin(ctx context.Context, m wire.Message) {
	if m.Method == mcp.MethodListen {
		ctx = b.lasting
	}
	ctx, cancel := context.WithCancel(ctx)
	do := func() {
		defer cancel()
		b.answer(ctx, m)
	}
	group := &b.wg
	if m.Method == mcp.MethodInitialize {
		group = &b.opening
	}
	b.mu.Lock()
	_, twice := b.calls[string(m.ID)]
	free := !twice && len(b.calls) < maxCalls && !b.closed
	if free {
		b.calls[string(m.ID)] = cancel
		group.Go(do)
	}
	b.mu.Unlock()
	if !free {
		cancel()
		b.refuse(m.ID, mcp.Errorf(failure.TooManyRequests,
			"A request with this id waits already, or %d requests do: wait for answers", maxCalls))
	}
}

// answer makes a request at the server, and gives the host the answer.
func (b *Bridge) answer(ctx context.Context, m wire.Message) {
	answer, err := b.send(ctx, nil, m)
	b.mu.Lock()
	delete(b.calls, string(m.ID))
	b.mu.Unlock()
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errEnded):
		executed := mcp.ExecutedUnknown
		if errors.Is(err, transport.ErrNotSent) {
			executed = mcp.ExecutedNo
		}
		b.refuse(m.ID, mcp.UpstreamError(failure.Stopping, b.host, executed,
			"%s has not answered within %v after the end of the input", b.host, lastWait))
	case ctx.Err() != nil: // the host does not want it any more
	case err != nil:
		b.refuse(m.ID, b.explain(m, err))
	default:
		if m.Method == mcp.MethodToolsList {
			b.learn(answer.Result)
		}
		b.write(answer)
	}
}

// cancel ends a request that the host does not want any more. To a stateless server the end of the stream says it
// (2026-07-28 basic/patterns/cancellation), to another one the notification.
func (b *Bridge) cancel(ctx context.Context, m wire.Message) {
	b.mu.Lock()
	end, waits := b.calls[string(m.Params.At("requestId"))]
	inSession := b.session != nil
	b.mu.Unlock()
	if inSession {
		b.post(ctx, m)
	}
	if waits {
		end()
	}
}

// post sends a notification, or an answer to a request of the server.
func (b *Bridge) post(ctx context.Context, m wire.Message) {
	ctx, stop := context.WithTimeout(ctx, postTime)
	defer stop()
	conn, s := b.conn(m)
	if err := conn.Post(ctx, text(m)); err != nil {
		b.log.Warn("a message of the host did not reach the server", failure.UpstreamDown.Attr(), "method", m.Method,
			"error", err)
	} else if m.Method == mcp.NoteInitialized && s != nil {
		b.listen(s)
	}
}

// refuse answers a request with an error, which is an *mcp.Error.
func (b *Bridge) refuse(id mcp.Raw, err error) {
	e, _ := errors.AsType[*mcp.Error](err)
	b.writeLine(wire.AppendError(nil, id, e))
}

// text is a message as it is sent.
func text(m wire.Message) []byte { return bytes.Join(m.Parts(), nil) }

// write sends a message to the host.
func (b *Bridge) write(m wire.Message) { b.writeLine(text(m)) }

func (b *Bridge) writeLine(text []byte) {
	for i, c := range text {
		if c == '\n' || c == '\r' { // white space between tokens; in strings it is escaped
			text[i] = ' '
		}
	}
	b.outMu.Lock()
	defer b.outMu.Unlock()
	_, _ = b.out.Write(append(text, '\n')) // a host that does not read any more closes the input, too
}
