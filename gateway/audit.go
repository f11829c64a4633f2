package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// maxFirstRecord bounds what is read of a file to find its place, in bytes.
const maxFirstRecord = 64 << 10

// openAudit opens the sinks of records, if there are any. What is recorded until the stores
// close is written.
func openAudit(g *Gateway, cfg Config, replica, version string, metrics *audit.Metrics) (err error) {
	deps := audit.Deps{Replica: replica, Version: version, Log: g.log, Metrics: metrics}
	if g.recent != nil {
		deps.Also = func(r *record.Record) { g.recent.Put(r); g.series.Put(r) }
	}
	g.journal, err = audit.New(cfg.Audit, deps)
	if err != nil {
		return err
	}
	g.undo.onStop("audit", g.journal.Close)
	return nil
}

// newRecorder makes what records calls.
func newRecorder(g *Gateway) *observe.Recorder {
	return &observe.Recorder{
		Journal: g.journal,
		RuleAt:  func(rule string) string { return ruleAt(g, rule) },
		Server: func(name string) (revision string, stateful bool) { // "" while it is not known
			if m := g.graph().member(name); m != nil && m.mcp != nil {
				return m.mcp.Era()
			}
			return "", false
		},
	}
}

// ruleAt returns the place of a rule in the configuration file, "" if there is none.
func ruleAt(g *Gateway, rule string) string {
	if places := g.rulePlaces.Load(); places != nil {
		return (*places)[rule]
	}
	return ""
}

// AuditReport is what was found out about a chain of records.
type AuditReport = record.Report

// VerifyAudit checks the chains in files of records, each file as a part of the chain to which
// its first record belongs. key is the secret that signs anchors, nil if it is not known.
// known are hashes of records that are known from elsewhere, for files of one chain only.
func VerifyAudit(files []string, key []byte, known map[uint64]AuditHash) ([]*AuditReport, error) {
	var signing *record.Key
	var err error
	if key != nil {
		if signing, err = record.NewKey(key); err != nil {
			return nil, err
		}
	}
	parts, err := auditParts(files)
	if err != nil {
		return nil, err
	}
	var reports []*AuditReport
	for len(parts) > 0 {
		end := slices.IndexFunc(parts, func(p auditPart) bool { return p.chain != parts[0].chain })
		if end < 0 {
			end = len(parts)
		}
		if known != nil && end < len(parts) {
			return nil, fmt.Errorf("there are files of several chains (%s, %s): what is known of a record has to be checked with the files of its chain alone", parts[0].chain, parts[end].chain)
		}
		v := record.NewVerifier(signing, known)
		for _, p := range parts[:end] {
			if err := withFile(p.file, func(f io.Reader) error { return v.Read(p.file, f) }); err != nil {
				return nil, err
			}
		}
		reports = append(reports, v.Report())
		parts = parts[end:]
	}
	return reports, nil
}

// AuditFilter says which records are wanted.
type AuditFilter = record.Filter

// AuditEntry is what is read of a record.
type AuditEntry = record.Entry

// QueryAudit calls do with each record in the files that fits, those of each chain oldest
// first, until do returns an error.
func QueryAudit(files []string, filter AuditFilter, do func(line []byte, e *AuditEntry) error) error {
	parts, err := auditParts(files)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := withFile(p.file, func(f io.Reader) error { return filter.Read(f, do) }); err != nil {
			return err
		}
	}
	return nil
}

// withFile calls do with what is in a file.
func withFile(name string, do func(io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// auditPart is a file with a part of a chain.
type auditPart struct {
	file, chain string
	seq         uint64 // of its first record
}

// auditParts returns the files by their chains, oldest first.
func auditParts(files []string) (parts []auditPart, err error) {
	for _, name := range files {
		err := withFile(name, func(f io.Reader) error {
			chain, seq, ok := record.Begins(f)
			if !ok {
				return fmt.Errorf("%s does not begin with a record", name)
			}
			parts = append(parts, auditPart{name, chain, seq})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(parts, auditPart.compare)
	return parts, nil
}

// compare orders files by their chains, the oldest first.
func (p auditPart) compare(q auditPart) int {
	return cmp.Or(strings.Compare(p.chain, q.chain), cmp.Compare(p.seq, q.seq))
}

// ReplayReport is what a replay of recorded calls has found out.
type ReplayReport = replay.Report

// ReplayQuestion says what to replay.
type ReplayQuestion struct {
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
// problems of the report, too; the error is about configurations, or that there are no files.
func Replay(ctx context.Context, q ReplayQuestion) (*ReplayReport, error) {
	draft, err := load(q.Draft, nil)
	if err != nil {
		return nil, err
	}
	var current *loaded
	if q.Current != "" {
		l, err := load(q.Current, nil)
		if err != nil {
			return nil, err
		}
		current = &l
	}
	files := q.Files
	if len(files) == 0 {
		of := draft.cfg
		if current != nil {
			of = current.cfg
		}
		i := slices.IndexFunc(of.Audit.Sinks, func(s audit.Sink) bool { return s.Type == audit.TypeFile })
		if i < 0 {
			return nil, errors.New("there is no sink of the type file in the section audit: say which files have the records")
		}
		files = append(audit.Renamed(of.Audit.Sinks[i].Path), of.Audit.Sinks[i].Path)
	}
	cfg := replay.Config{Since: q.Since, Until: q.Until}
	if q.Key != nil {
		if cfg.Key, err = record.NewKey(q.Key); err != nil {
			return nil, err
		}
	}
	r, err := newReplay(cfg, draft, current)
	if err != nil {
		return nil, err
	}
	for _, name := range oldestFirst(files) {
		err := withFile(name, func(f io.Reader) error { return r.Read(ctx, name, f) })
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			r.Problem(replay.Problem{File: name, Message: err.Error()})
		}
	}
	return r.Report(), nil
}

// newReplay makes a replay of a draft. current is nil if it is not known.
func newReplay(cfg replay.Config, draft loaded, current *loaded) (*replay.Replay, error) {
	cfg.Draft = replayed(draft)
	if current != nil {
		now := replayed(*current)
		cfg.Current = &now
		cfg.SameSignIn = reflect.DeepEqual(draft.cfg.Auth, current.cfg.Auth)
		cfg.SameServers = reflect.DeepEqual(draft.cfg.Upstreams, current.cfg.Upstreams) && draft.cfg.Naming == current.cfg.Naming
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

// replayed returns what decides in a configuration.
func replayed(l loaded) replay.Rules {
	cfg := l.cfg.withDefaults()
	r := replay.Rules{Policy: cfg.rules(), Views: viewRules(cfg), SignIn: cfg.Auth.Identifies(), Issuers: cfg.callerIssuers(), Places: l.places}
	for _, u := range cfg.Upstreams {
		if !enabled(u) {
			continue
		}
		r.Upstreams = append(r.Upstreams, u.Name)
		if pinMode(cfg, u) == pinning.Block {
			r.Hides = append(r.Hides, u.Name)
		}
	}
	return r
}

// oldestFirst sorts files by the records with which they begin, if they begin with one.
func oldestFirst(files []string) []string {
	at := make(map[string]auditPart)
	for _, name := range files {
		p := auditPart{file: name}
		_ = withFile(name, func(f io.Reader) error { // one that cannot be read comes first
			p.chain, p.seq, _ = record.Begins(io.LimitReader(f, maxFirstRecord))
			return nil
		})
		at[name] = p
	}
	return slices.SortedStableFunc(slices.Values(files), func(a, b string) int { return at[a].compare(at[b]) })
}

// AuditHash is the hash of a record.
type AuditHash = record.Hash

// ParseAuditHash reads the hash of a record.
func ParseAuditHash(text string) (AuditHash, error) { return record.ParseHash(text) }
