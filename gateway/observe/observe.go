package observe

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxName bounds how much of a client's name or URI a line repeats, in bytes.
const maxName = 256

// How a call ended, in the log.
const (
	loggedOK        = "ok"
	loggedError     = "error"
	loggedAsk       = "ask"
	loggedCancelled = "cancelled"
)

// Middleware counts each call, and logs one line, "call", when it is finished: its id,
// method, name, outcome (ok, error, ask or cancelled), error code if any, and duration.
// The level is Info; Warn for a failure of ours, which the client sees as "internal
// error" and whose cause is then told here. Error messages of upstreams are left out:
// they may repeat arguments. Without metrics, nothing is counted.
func Middleware(log *slog.Logger, metrics *Metrics) mcp.Middleware {
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	return func(next mcp.Handler) mcp.Handler {
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			reply, start, took, err := metrics.run(ctx, c, next)
			if log.Enabled(ctx, slog.LevelWarn) {
				write(ctx, log, c, reply, err, start.Add(took), took)
			}
			return reply, err
		})
	}
}

func write(ctx context.Context, log *slog.Logger, c *mcp.Call, reply *mcp.Reply, err error, now time.Time, took time.Duration) {
	level, outcome := slog.LevelInfo, loggedOK
	var known *mcp.Error
	switch {
	case err == nil:
		if reply != nil && reply.Ask != nil {
			outcome = loggedAsk
		}
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		outcome = loggedCancelled
	case errors.As(err, &known):
		outcome = loggedError
	default:
		level, outcome = slog.LevelWarn, loggedError
	}
	if !log.Enabled(ctx, level) {
		return
	}
	// The usual line has five attributes: as many as a slog.Record holds in place.
	attrs := append(make([]slog.Attr, 0, 7),
		slog.String("call", c.ID),
		slog.String("method", clean(c.Method)),
		slog.String("name", clean(c.Name)),
		slog.String("outcome", outcome),
		slog.Duration("duration", took))
	switch {
	case outcome != loggedError:
	case known == nil:
		attrs = append(attrs, slog.Int("code", mcp.CodeInternal), slog.Any("error", err))
	default:
		attrs = append(attrs, slog.Int("code", known.Code))
		if upstream := upstreamOf(known); upstream != "" {
			attrs = append(attrs, slog.String("upstream", clean(upstream)))
		}
	}
	// Past the Logger, which would look up where in the source this is.
	record := slog.NewRecord(now, level, "call", 0)
	record.AddAttrs(attrs...)
	_ = log.Handler().Handle(ctx, record) // there is nowhere to tell that the log fails
}

// upstreamOf is the upstream that one of our own errors names (mcp.UpstreamError).
func upstreamOf(e *mcp.Error) string {
	if e.Code <= 0 {
		return ""
	}
	upstream, _ := e.Data.Member("upstream")
	return upstream.Text()
}

// clean makes what a client or upstream wrote fit for a log: it cuts it short and
// replaces what a terminal might obey beyond ASCII, such as U+009B and the
// bidirectional controls. The rest slog's handlers escape.
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
