package events

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const (
	// namesRecorded bounds each list of names in a record of changed lists.
	namesRecorded = 200
)

// Recorder records what happens beside calls. Its zero value records nothing. It may be used
// concurrently.
type Recorder struct {
	journal *audit.Journal

	// Of records of those that are refused, each its own: one must not silence another.
	signIns, tokenless, accountSignIns, consoleSignIns, grants, requests ration
}

// New returns a recorder into a journal, which may be nil.
func New(journal *audit.Journal) *Recorder { return &Recorder{journal: journal} }

// Judged records a sign-in: a token that was verified, or refused.
func (e *Recorder) Judged(j auth.Judgement) {
	if !e.journal.Enabled() {
		return
	}
	r := &record.Record{
		Kind: record.KindSignIn, Event: "ok", Reason: j.Reason, View: j.View,
		Issuer: j.Caller.Issuer, User: j.Caller.Subject, Groups: j.Caller.Groups, Client: j.Caller.ClientID, Agent: j.Agent,
		ClientAddress: j.Caller.From.Address, UserAgent: j.Caller.From.Agent,
	}
	switch {
	case j.Name == failure.TokenMissing: // as clients begin that do not know yet where to sign in
		r.Event, r.Code, r.Error = "no token", j.Status, j.Name.String()
		e.ration(&e.tokenless, r)
		return
	case j.Status != 0:
		r.Event, r.Code, r.Error = "refused", j.Status, j.Name.String()
		e.ration(&e.signIns, r)
		return
	}
	e.journal.Put(r)
}

// ConsoleSignIn records that somebody signed in to the console, or why not.
func (e *Recorder) ConsoleSignIn(who mcp.Caller, err error) {
	r := &record.Record{Kind: record.KindAdmin, Event: "signed in", Issuer: who.Issuer, User: who.Subject, Groups: who.Groups, Client: who.ClientID, ClientAddress: who.From.Address, UserAgent: who.From.Agent}
	if err != nil {
		r.Event, r.Reason = "sign-in refused", err.Error()
		e.ration(&e.consoleSignIns, r)
		return
	}
	e.journal.Put(r)
}

// Granted records what happened at the gateway's own authorization server.
func (e *Recorder) Granted(ctx context.Context, g grants.Event) {
	if !e.journal.Enabled() {
		return
	}
	r := &record.Record{
		Kind: record.KindSignIn, Event: g.Name, Reason: g.Reason, View: g.View,
		Issuer: g.Caller.Issuer, User: g.Caller.Subject, Groups: g.Caller.Groups, Client: clientele.ShortID(g.Client), Agent: g.Agent,
	}
	from := mcp.OriginFrom(ctx)
	r.ClientAddress, r.UserAgent = from.Address, from.Agent
	if g.Reason != "" && g.Name != "token given" { // no record of a token that somebody has may be missing
		e.ration(&e.grants, r)
		return
	}
	e.journal.Put(r)
}

// TurnedAway records a request that became no call. The caller is empty if it was refused before
// anybody asked who it was.
func (e *Recorder) TurnedAway(c mcp.Caller, method string, status int, why failure.Name) {
	if e.journal.Enabled() {
		e.ration(&e.requests, &record.Record{
			Kind: record.KindRefused, View: c.View, Issuer: c.Issuer, User: c.Subject, Groups: c.Groups, Client: c.ClientID,
			Method: method, Code: status, Error: why.String(), ClientAddress: c.From.Address, UserAgent: c.From.Agent,
		})
	}
}

// Reloaded records what became of the configuration file.
func (e *Recorder) Reloaded(r record.Record) {
	r.Kind = record.KindReload
	e.journal.Put(&r)
}

// Changed records that a server offers something else.
func (e *Recorder) Changed(c catalog.Change) {
	few := func(names []string) []string { return names[:min(len(names), namesRecorded)] }
	e.journal.Put(&record.Record{
		Kind: record.KindLists, Upstream: c.Upstream, List: c.List,
		Added: few(c.Added), Removed: few(c.Removed), Changed: few(c.Changed),
		Count: int64(len(c.Added) + len(c.Removed) + len(c.Changed)),
	})
}

// Fetched records that the gateway asked for a credential.
func (e *Recorder) Fetched(f outbound.Fetch) {
	r := &record.Record{Kind: record.KindCredential, Event: "obtained", Upstream: f.Upstream, Issuer: f.Issuer, User: f.User}
	if f.Err != nil {
		r.Event, r.Reason = "refused", f.Err.Error()
	}
	e.journal.Put(r)
}

// Account records what became of a user's own account at a server.
func (e *Recorder) Account(a vault.Event) {
	r := &record.Record{Kind: record.KindCredential, Event: a.What, Upstream: a.Server, Issuer: a.Owner.Issuer, User: a.Owner.User}
	if a.Err != nil {
		r.Reason = a.Err.Error()
	}
	e.journal.Put(r)
}

// AccountRefused records that a user could not sign in at a server.
func (e *Recorder) AccountRefused(server string, who *mcp.Caller, why error) {
	e.ration(&e.accountSignIns, &record.Record{
		Kind: record.KindCredential, Event: "sign-in refused", Upstream: server, Issuer: who.Issuer, User: who.Subject, ClientAddress: who.From.Address, UserAgent: who.From.Agent,
		Reason: why.Error(), Error: failure.SignInFailed.String(),
	})
}

// SessionEnded records the end of a client's session.
func (e *Recorder) SessionEnded(r session.Record) {
	if e.journal.Enabled() && !strings.HasPrefix(r.ID, "~") { // derived sessions of stateless clients do not begin either
		ended := &record.Record{
			Kind: record.KindSession, Event: "end", Session: record.Digest(r.Key()), Revision: r.Revision, View: r.View,
			User: r.Subject, Client: r.Client,
		}
		if !r.Created.IsZero() {
			ended.Duration = time.Since(r.Created)
		}
		e.journal.Put(ended)
	}
}

// sessions are those of clients, whose beginnings are recorded.
type sessions struct {
	session.Store
	events *Recorder
}

// Sessions returns a store that records the beginnings of sessions.
func (e *Recorder) Sessions(store session.Store) session.Store { return sessions{store, e} }

// Create begins a session; see session.Store.
func (s sessions) Create(ctx context.Context, r session.Record) (session.Record, error) {
	created, err := s.Store.Create(ctx, r)
	if err != nil || !s.events.journal.Enabled() {
		return created, err
	}
	caller, _ := mcp.CallerFrom(ctx)
	s.events.journal.Put(&record.Record{
		Kind: record.KindSession, Event: "start", Session: record.Digest(created.Key()), Revision: created.Revision, View: created.View,
		Issuer: caller.Issuer, User: caller.Subject, Groups: caller.Groups, Client: caller.ClientID,
		ClientAddress: caller.From.Address, UserAgent: caller.From.Agent,
	})
	return created, nil
}

// NotApproved logs and records what is not approved.
func (e *Recorder) NotApproved(log *slog.Logger, f pinning.Finding) {
	what := "changed"
	if f.New {
		what = "new"
	}
	attrs := []slog.Attr{
		failure.NotApproved.Attr(), slog.String("upstream", f.Upstream), slog.String("what", string(f.Kind)),
		slog.String("name", f.Name), slog.String("change", what), slog.Bool("hidden", f.Blocked),
	}
	if len(f.Differ) > 0 {
		attrs = append(attrs, slog.String("differs", strings.Join(f.Differ, ",")))
	}
	if len(f.Hidden) > 0 {
		attrs = append(attrs, slog.String("deceives", strings.Join(f.Hidden, "; ")))
	}
	log.LogAttrs(context.Background(), slog.LevelWarn, "an upstream offers something that is not approved", attrs...)
	r := &record.Record{
		Kind: record.KindPin, Event: "warned", Upstream: f.Upstream, List: string(f.Kind), Original: f.Name,
		Changed: f.Differ, Reason: strings.Join(f.Hidden, "; "),
	}
	if f.New {
		r.Added = []string{f.Name}
	}
	if f.Blocked {
		r.Event = "hidden"
	}
	e.journal.Put(r)
}
