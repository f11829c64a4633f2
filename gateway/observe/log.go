package observe

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

const (
	// queueBytes bounds the log lines that wait for a slow writer, of each kind; further lines are
	// dropped and counted.
	queueBytes = 1 << 20
	// gather is the time between two writes, unless much waits. Lines in quick succession share
	// one write, because waking the writer costs a call more than its line does.
	gather = 50 * time.Millisecond
	// recordBytes is the size of a queued record without its texts.
	recordBytes = 512
	// closeTimeout bounds the wait of closing for a writer that hangs.
	closeTimeout = 2 * time.Second
)

// Formats of a log.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// LogConfig is the section "log". Its zero value means text, from level info on.
type LogConfig struct {
	// Level is the least severe level that is logged: debug, info (the default), warn or
	// error. It can be changed by a reload.
	Level slog.Level `yaml:"level"`
	// Format is "text" (key=value, the default) or "json"; one line each.
	Format string `yaml:"format"`
}

// Validate reports the mistakes in the configuration.
func (c LogConfig) Validate() error {
	if c.Format != "" && c.Format != FormatText && c.Format != FormatJSON {
		return fmt.Errorf("format: %q: want %s or %s", c.Format, FormatText, FormatJSON)
	}
	return nil
}

// NewLogger makes a logger that writes whole lines to w from its own goroutine, so that a slow w
// never delays a call. Lines that w cannot take in time are dropped, and a line gives their number.
// The returned function writes the remaining lines and ends the goroutine; later lines go to w
// directly. It may be called twice. level, which may change, replaces cfg's level unless it is nil.
// metrics may be nil.
func NewLogger(w io.Writer, cfg LogConfig, level slog.Leveler, metrics *LogMetrics) (*slog.Logger, func(), error) {
	if err := cfg.Validate(); err != nil {
		return nil, nil, fmt.Errorf("log: %w", err)
	}
	if level == nil {
		level = cfg.Level
	}
	handler := func(w io.Writer) slog.Handler {
		options := &slog.HandlerOptions{Level: level}
		if cfg.Format == FormatJSON {
			return slog.NewJSONHandler(w, options)
		}
		return slog.NewTextHandler(w, options)
	}
	if metrics == nil {
		metrics = NewLogMetrics(nil)
	}
	q := &queue{w: w, own: slog.New(handler(w)), metrics: metrics, wake: make(chan struct{}, 1),
		much: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go q.run()
	return slog.New(&later{q: q, now: handler(q), then: handler(&q.batch)}), q.close, nil
}
