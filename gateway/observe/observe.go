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
)

// maxName bounds, in bytes, how much of a client's name or URI a line repeats.
const maxName = 256

// Middleware counts each call, and logs one line, "call", when the call has ended.
// docs/operations.md lists its attributes. The level is Info, or Warn for a failure of the
// gateway, which the client sees as "internal error" and whose cause this line gives. Error
// messages of upstreams are left out: they may repeat arguments. Without metrics, nothing
// is counted, and without a recorder, nothing is recorded.
func Middleware(log *slog.Logger, metrics *Metrics, recorder *Recorder) mcp.Middleware {
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	return func(next mcp.Handler) mcp.Handler {
		admitted := recorder.admit(next)
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			logs, records, then := log.Enabled(ctx, slog.LevelWarn), recorder.enabled(), next
			if logs || records {
				c = observed(c)
			}
			if records {
				then = admitted
			}
			reply, how, end, err := metrics.run(ctx, c, then)
			if logs {
				write(ctx, log, c, how, err, end)
			}
			if records {
				recorder.record(c, reply, how, err, end)
			}
			return reply, err
		})
	}
}

// observed returns the call with a place for the decision of policy.
func observed(c *mcp.Call) *mcp.Call {
	both := &struct {
		call    mcp.Call
		verdict mcp.Verdict
	}{call: *c}
	both.call.Verdict = &both.verdict
	return &both.call
}

// ending is when a call was answered, and its duration.
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
	attrs := append(make([]slog.Attr, 0, 14),
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
	attrs = append(attrs, slog.String("outcome", outcomes[how]), slog.Float64("duration_ms", float64(end.took.Microseconds())/1000))
	switch {
	case how == outcomeOK, how == outcomeAsk, how == outcomeCancelled:
	case known == nil:
		attrs = append(attrs, slog.Int("code", mcp.CodeInternal), failure.Internal.Attr(), slog.Any("error", err))
	default:
		attrs = append(attrs, slog.Int("code", known.Code), known.Name.Attr())
		text("cause", known.Cause)
	}
	// This bypasses the Logger, which would look up the source position.
	record := slog.NewRecord(end.at, level, "call", 0)
	record.AddAttrs(attrs...)
	_ = log.Handler().Handle(ctx, record) // a failing log cannot be reported anywhere
}

// upstreamOf returns the upstream that one of our own errors names (mcp.UpstreamError).
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
