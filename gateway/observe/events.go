package observe

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

// namesRecorded bounds each list of names in a record of changed lists.
const namesRecorded = 200

// Events records events beside calls: sign-ins, sessions, credentials, accounts, reloads, changed
// lists, definitions that are not approved, and requests that became no call. Its zero value
// records nothing. It may be used concurrently.
type Events struct {
	journal *audit.Journal

	// Each kind of refusal has a ration of its own: one must not silence another.
	signIns, tokenless, accountSignIns, consoleSignIns, grants, requests ration
}

// NewEvents returns Events into a journal, which may be nil.
func NewEvents(journal *audit.Journal) *Events { return &Events{journal: journal} }

// by begins the record of a caller's action.
func by(c mcp.Caller, kind string) *record.Record {
	return &record.Record{
		Kind:          kind,
		Issuer:        c.Issuer,
		User:          c.Subject,
		Groups:        c.Groups,
		Client:        c.ClientID,
		View:          c.View,
		ClientAddress: c.From.Address,
		UserAgent:     c.From.Agent,
	}
}

// Judged records a sign-in: a token that was verified, or refused.
func (e *Events) Judged(j auth.Judgement) {
	if !e.journal.Enabled() {
		return
	}
	r := by(j.Caller, record.KindSignIn)
	r.Event, r.Reason, r.View, r.Agent = "ok", j.Reason, j.View, j.Agent
	switch {
	case j.Name == failure.TokenMissing: // clients begin like this before they know where to sign in
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

// ConsoleSignIn records that a person signed in to the console, or why not.
func (e *Events) ConsoleSignIn(who mcp.Caller, err error) {
	r := by(who, record.KindAdmin)
	r.Event, r.View = "signed in", ""
	if err != nil {
		r.Event, r.Reason = "sign-in refused", err.Error()
		e.ration(&e.consoleSignIns, r)
		return
	}
	e.journal.Put(r)
}

// Granted records an event of the gateway's own authorization server.
func (e *Events) Granted(ctx context.Context, g grants.Event) {
	if !e.journal.Enabled() {
		return
	}
	who := g.Caller
	who.View, who.ClientID, who.From = g.View, clientele.ShortID(g.Client), mcp.OriginFrom(ctx)
	r := by(who, record.KindSignIn)
	r.Event, r.Reason, r.Agent = g.Name, g.Reason, g.Agent
	if g.Reason != "" && g.Name != "token given" { // no record of an issued token may be missing
		e.ration(&e.grants, r)
		return
	}
	e.journal.Put(r)
}

// TurnedAway records a request that became no call. The caller is empty if the request was refused
// before its caller was known.
func (e *Events) TurnedAway(c mcp.Caller, method string, status int, why failure.Name) {
	if e.journal.Enabled() {
		r := by(c, record.KindRefused)
		r.Method, r.Code, r.Error = method, status, why.String()
		e.ration(&e.requests, r)
	}
}

// Reloaded records the result of reading the configuration file.
func (e *Events) Reloaded(r record.Record) {
	r.Kind = record.KindReload
	e.journal.Put(&r)
}

// Changed records that a server offers something else.
func (e *Events) Changed(c catalog.Change) {
	few := func(names []string) []string { return names[:min(len(names), namesRecorded)] }
	e.journal.Put(&record.Record{
		Kind:     record.KindLists,
		Upstream: c.Upstream,
		List:     c.List,
		Added:    few(c.Added),
		Removed:  few(c.Removed),
		Changed:  few(c.Changed),
		Count:    int64(len(c.Added) + len(c.Removed) + len(c.Changed)),
	})
}

// Fetched records that the gateway asked for a credential.
func (e *Events) Fetched(f outbound.Fetch) {
	event := "obtained"
	if f.Err != nil {
		event = "refused"
	}
	e.credential(event, f.Upstream, f.Issuer, f.User, f.Err)
}

// Account records an event of a user's own account at a server.
func (e *Events) Account(a vault.Event) {
	e.credential(a.What, a.Server, a.Owner.Issuer, a.Owner.User, a.Err)
}

func (e *Events) credential(event, server, issuer, user string, why error) {
	r := &record.Record{Kind: record.KindCredential, Event: event, Upstream: server, Issuer: issuer, User: user}
	if why != nil {
		r.Reason = why.Error()
	}
	e.journal.Put(r)
}

// AccountRefused records that a user could not sign in at a server.
func (e *Events) AccountRefused(server string, who *mcp.Caller, why error) {
	e.ration(&e.accountSignIns, &record.Record{
		Kind:          record.KindCredential,
		Event:         "sign-in refused",
		Reason:        why.Error(),
		Error:         failure.SignInFailed.String(),
		Upstream:      server,
		Issuer:        who.Issuer,
		User:          who.Subject,
		ClientAddress: who.From.Address,
		UserAgent:     who.From.Agent,
	})
}

// SessionEnded records the end of a client's session.
func (e *Events) SessionEnded(r session.Record) {
	if e.journal.Enabled() && !strings.HasPrefix(r.ID, "~") { // those of stateless clients are derived
		ended := by(mcp.Caller{Subject: r.Subject, ClientID: r.Client, View: r.View}, record.KindSession)
		ended.Event, ended.Session, ended.Revision = "end", record.Digest(r.Key()), r.Revision
		if !r.Created.IsZero() {
			ended.Duration = time.Since(r.Created)
		}
		e.journal.Put(ended)
	}
}

// sessions is a store that records the beginnings of clients' sessions.
type sessions struct {
	session.Store
	events *Events
}

// Sessions returns a store that records the beginnings of sessions.
func (e *Events) Sessions(store session.Store) session.Store { return sessions{store, e} }

// Create begins a session; see session.Store.
func (s sessions) Create(ctx context.Context, r session.Record) (session.Record, error) {
	created, err := s.Store.Create(ctx, r)
	if err != nil || !s.events.journal.Enabled() {
		return created, err
	}
	caller, _ := mcp.CallerFrom(ctx)
	started := by(caller, record.KindSession)
	started.Event, started.View = "start", created.View
	started.Session, started.Revision = record.Digest(created.Key()), created.Revision
	s.events.journal.Put(started)
	return created, nil
}

// NotApproved logs and records a definition that is not approved.
func (e *Events) NotApproved(log *slog.Logger, f pinning.Finding) {
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
		Kind:     record.KindPin,
		Event:    "warned",
		Reason:   strings.Join(f.Hidden, "; "),
		Upstream: f.Upstream,
		List:     string(f.Kind),
		Original: f.Name,
		Changed:  f.Differ,
	}
	if f.New {
		r.Added = []string{f.Name}
	}
	if f.Blocked {
		r.Event = "hidden"
	}
	e.journal.Put(r)
}
