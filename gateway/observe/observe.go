package observe

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// callMessage is the message of the line of a call.
const callMessage = "call"

// maxName bounds the part of a client's name or URI in a line, in bytes.
const maxName = 256

// Observer counts calls of clients, logs one line for each when it has ended, and records it.
// docs/operations.md lists the attributes of the line, "call". Its level is Info, or Warn for a
// failure of the gateway, which the client sees as "internal error"; this line gives its cause.
type Observer struct {
	// Log takes the lines. It is needed.
	Log *slog.Logger
	// Metrics count the calls. They are needed.
	Metrics *Metrics
	// Recorder records the calls; nil for no records.
	Recorder *Recorder
}

// errPanic is the error of a call that ended with a panic, which the client sees as "internal error".
var errPanic = errors.New("panic: the log has it")

// Observe makes a call by next, which answers it: all its rounds are within. The call must have a
// Verdict, which is its alone. It repeats the Verdict, and concludes nothing.
func (o *Observer) Observe(ctx context.Context, c *mcp.Call, next mcp.Handler) (reply *mcp.Reply, err error) {
	logs, records := o.Log.Enabled(ctx, slog.LevelWarn), o.Recorder.enabled()
	start := time.Now()
	defer func() {
		took := time.Since(start)
		end := ending{start.Add(took), took - c.Verdict.Waited}
		how := outcomeOf(ctx, c, reply, err)
		o.Metrics.count(c, how, end.took)
		if logs {
			write(ctx, o.Log, c, how, err, end)
		}
		if records {
			o.Recorder.record(c, reply, how, err, end)
		}
	}()
	if err = o.Recorder.admit(ctx); err != nil {
		return nil, err
	}
	err = errPanic // unless next returns
	reply, err = next.Handle(ctx, c)
	return reply, err
}

// ending is the time of a call's answer, and its duration without the user.
type ending struct {
	at   time.Time
	took time.Duration
}

func write(ctx context.Context, log *slog.Logger, c *mcp.Call, how outcome, err error, end ending) {
	level := slog.LevelInfo
	if how == outcomeInternal {
		level = slog.LevelWarn
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("call", c.ID),
		slog.String("method", clean(c.Method)))
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, clean(value)))
		}
	}
	text("name", c.Name)
	text("user", c.Caller.Subject)
	text("client", c.Caller.ClientID)
	text("view", c.Caller.View)
	if c.Trace != nil {
		attrs = append(attrs, slog.String("trace", c.Trace.ID))
	}
	upstream := c.Verdict.Target.Upstream
	known, _ := errors.AsType[*mcp.Error](err)
	if upstream == "" && known != nil {
		upstream = upstreamOf(known)
	}
	text("upstream", upstream)
	if c.Verdict.Effect != "allow" {
		text("policy", c.Verdict.Effect)
		text("rule", c.Verdict.Rule)
	}
	attrs = append(attrs, slog.String("outcome", outcomes[how]),
		slog.Float64("duration_ms", float64(end.took.Microseconds())/1000))
	switch {
	case err == nil:
	case how == outcomeCancelled:
		text("reason", c.Verdict.Reason)
	case known == nil:
		attrs = append(attrs, slog.Int("code", mcp.CodeInternal), failure.Internal.Attr(), slog.String("error", err.Error()))
	default:
		attrs = append(attrs, slog.Int("code", known.Code), known.Name.Attr())
		text("cause", known.Cause)
	}
	if said := c.Verdict.ServerError; said != "" {
		attrs = append(attrs, slog.String("server_error", record.ServerError(said)))
	}
	text("client_address", c.Caller.From.Address)
	text("user_agent", c.Caller.From.Agent)
	// This bypasses the Logger, which would look up the source position.
	record := slog.NewRecord(end.at, level, callMessage, 0)
	record.AddAttrs(attrs...)
	_ = log.Handler().Handle(ctx, record) // a failing log cannot be reported anywhere
}

// upstreamOf returns the upstream that one of the gateway's own errors names (mcp.UpstreamError).
func upstreamOf(e *mcp.Error) string {
	if e.Code <= 0 {
		return ""
	}
	upstream, _ := e.Data.Member("upstream")
	return upstream.Text()
}

// clean makes text of a client or upstream safe for a log. It shortens it, and replaces
// non-ASCII characters that a terminal might obey, such as U+009B and the bidirectional
// controls. slog's handlers escape the rest.
func clean(s string) string {
	plain := len(s) <= maxName
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] < utf8.RuneSelf
	}
	if plain {
		return s
	}
	cut := s[:min(len(s), maxName)]
	cut = strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, cut)
	if len(s) > maxName {
		cut += "..."
	}
	return cut
}
