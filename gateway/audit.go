package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// openAudit opens the sinks of records, if there are any. What is recorded until the stores
// close is written.
func openAudit(g *Gateway, cfg Config, replica, version string, metrics *audit.Metrics) (err error) {
	deps := audit.Deps{Replica: replica, Version: version, Log: g.log, Metrics: metrics}
	if g.recent != nil {
		deps.Also = g.recent.Put
	}
	g.journal, err = audit.New(cfg.Audit, deps)
	if err != nil {
		return err
	}
	g.undo.onStop("audit", g.journal.Close)
	g.services.events.journal = g.journal
	g.services.events.reloaded(record.Record{Event: "start", Revised: g.reloaded.Revision})
	g.services.recorder = &observe.Recorder{
		Journal: g.journal,
		RuleAt:  func(rule string) string { return ruleAt(g.rulePlaces.Load(), rule) },
		Server:  func(name string) (string, bool) { return serverEra(g.graph(), name) },
	}
	return nil
}

// ruleAt returns the place of a rule in the configuration file, "" if there is none.
func ruleAt(places *map[string]string, rule string) string {
	if places == nil {
		return ""
	}
	return (*places)[rule]
}

// serverEra returns the revision of an upstream, "" while it is not known.
func serverEra(now *graph, name string) (revision string, stateful bool) {
	if m := now.member(name); m != nil && m.mcp != nil {
		return m.mcp.Era()
	}
	return "", false
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
			if err := p.verify(v); err != nil {
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
		f, err := os.Open(p.file)
		if err != nil {
			return err
		}
		if err := errors.Join(filter.Read(f, do), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// auditPart is a file with a part of a chain.
type auditPart struct {
	file, chain string
	seq         uint64 // of its first record
}

// auditParts returns the files by their chains, oldest first.
func auditParts(files []string) (parts []auditPart, err error) {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		chain, seq, ok := record.Begins(f)
		if err := f.Close(); err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("%s does not begin with a record", name)
		}
		parts = append(parts, auditPart{name, chain, seq})
	}
	slices.SortStableFunc(parts, func(a, b auditPart) int {
		return cmp.Or(strings.Compare(a.chain, b.chain), cmp.Compare(a.seq, b.seq))
	})
	return parts, nil
}

func (p auditPart) verify(v *record.Verifier) error {
	f, err := os.Open(p.file)
	if err != nil {
		return err
	}
	return errors.Join(v.Read(p.file, f), f.Close())
}

// AuditHash is the hash of a record.
type AuditHash = record.Hash

// ParseAuditHash reads the hash of a record.
func ParseAuditHash(text string) (AuditHash, error) { return record.ParseHash(text) }
