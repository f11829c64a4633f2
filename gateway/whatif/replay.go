package whatif

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Recorded is a question about recorded calls.
type Recorded struct {
	// Draft is the configuration file to try; Current is the one in force, "" if it is not known.
	Draft, Current string
	// Files have the records; none for those of the first file sink of Current, or else of Draft.
	Files []string
	// Key is the secret that keys the digests of arguments (audit.key), nil for none.
	Key []byte
	// Since and Until bound the time of calls; Until is not included. Zero for no bound.
	Since, Until time.Time
}

// Replay runs a draft of a configuration against recorded calls. Files that cannot be read are
// problems of the report, too; the error is about configurations, or that there are no records.
func Replay(ctx context.Context, q Recorded) (*replay.Report, error) {
	draft, err := config.Read(q.Draft, nil)
	if err != nil {
		return nil, err
	}
	var current *config.Loaded
	if q.Current != "" {
		l, err := config.Read(q.Current, nil)
		if err != nil {
			return nil, err
		}
		current = &l
	}
	names := q.Files
	if len(names) == 0 {
		of := draft.Config
		if current != nil {
			of = current.Config
		}
		i := slices.IndexFunc(of.Audit.Sinks, func(s audit.Sink) bool { return s.Type == audit.TypeFile })
		if i < 0 {
			return nil, errors.New("there is no sink of the type file in the section audit: say which files have the records")
		}
		names = append(audit.Renamed(of.Audit.Sinks[i].Path), of.Audit.Sinks[i].Path)
	}
	cfg := replay.Config{Since: q.Since, Until: q.Until}
	if q.Key != nil {
		if cfg.Key, err = record.NewKey(q.Key); err != nil {
			return nil, err
		}
	}
	r, err := NewReplay(cfg, draft, current)
	if err != nil {
		return nil, err
	}
	for _, name := range record.OldestFirst(names) {
		err := record.OpenFile(name, func(f io.Reader) error { return r.Read(ctx, name, f) })
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			r.Problem(replay.Problem{File: name, Message: err.Error()})
		}
	}
	return r.Report(), nil
}

// NewReplay makes a replay of a draft. current is nil if it is not known.
func NewReplay(cfg replay.Config, draft config.Loaded, current *config.Loaded) (*replay.Replay, error) {
	cfg.Draft = replayed(draft)
	if current != nil {
		now := replayed(*current)
		cfg.Current = &now
		cfg.SameSignIn = reflect.DeepEqual(draft.Config.Auth, current.Config.Auth)
		cfg.SameServers = reflect.DeepEqual(draft.Config.Upstreams, current.Config.Upstreams) &&
			draft.Config.Naming == current.Config.Naming
	}
	r, err := replay.New(cfg)
	switch {
	case err != nil:
		return nil, err
	case current == nil && len(cfg.Draft.Hides) > 0:
		r.Note("Without the configuration in force, calls of servers whose definitions the draft pins cannot be told.")
	case current != nil && !cfg.SameSignIn:
		r.Note("The draft has another section auth: callers are taken as they were recorded.")
	}
	return r, nil
}

// replayed returns the deciding sections of a configuration.
func replayed(l config.Loaded) replay.Rules {
	cfg := l.Config.WithDefaults()
	r := replay.Rules{Policy: cfg.Rules(), Views: config.ViewRules(cfg), SignIn: cfg.Auth.Identifies(),
		Issuers: cfg.CallerIssuers(), Places: l.Places}
	for _, u := range cfg.Upstreams {
		if !config.Enabled(u) {
			continue
		}
		r.Upstreams = append(r.Upstreams, u.Name)
		if config.PinMode(cfg, u) == pinning.Block {
			r.Hides = append(r.Hides, u.Name)
		}
	}
	return r
}
