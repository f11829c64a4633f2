package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

const (
	defaultPage = 100
	mostPage    = 1000
	// defaultFailed is the default number of failed sign-ins that are shown one by one.
	defaultFailed = 20
)

// queryOf reads the query for records; see ReadQuery.
func queryOf(allowed ...string) func(*exchange) (recent.Query, error) {
	return func(x *exchange) (recent.Query, error) { return ReadQuery(x.r.URL.Query(), allowed...) }
}

// decisions returns a page of records.
func decisions(ctx context.Context, a *API, who Operator, q recent.Query) (Page, error) {
	q.Limit = cmp.Or(q.Limit, defaultPage)
	found := a.deps.Recent.Find(ctx, q)
	page := Page{Decisions: some(who.shown(found.Items)), Partial: partial(found.Partial)}
	if found.More {
		page.Next = found.Items[len(found.Items)-1].Cursor.String()
	}
	return page, nil
}

func signInsQuery(x *exchange) (recent.Query, error) {
	values := x.r.URL.Query()
	if err := onlyOnce(values, "user", "since", "until", "limit"); err != nil {
		return recent.Query{}, err
	}
	return ReadQuery(values, "limit")
}

// signIns returns the failed sign-ins in memory. The limit is for those that are shown one by one.
func signIns(ctx context.Context, a *API, who Operator, q recent.Query) (SignIns, error) {
	most := cmp.Or(q.Limit, defaultFailed)
	q.Kinds, q.Limit = []string{record.KindSignIn, record.KindCredential, record.KindAdmin}, 0
	found := a.deps.Recent.Find(ctx, q)
	failed := slices.DeleteFunc(found.Items, func(i *recent.Item) bool { return !signInFailed(i.Record) })
	answer := SignIns{Last: some(who.shown(failed[:min(len(failed), most)])), Partial: partial(found.Partial)}
	answer.Failures, answer.LeftOut = failures(failed)
	answer.Failures = some(answer.Failures)
	return answer, nil
}

const (
	// mostExams bounds the tokens that are examined at a time: issuers may be asked about each.
	mostExams = 4
	// longestExam bounds the time of an examination.
	longestExam = 25 * time.Second
)

// examine tells why a token is or would be refused. It is for operators, since those who ask hold
// another person's token. No part of the token is recorded, logged or answered.
func examine(ctx context.Context, a *API, who Operator, p PastedToken) (e Examined, err error) {
	if strings.TrimSpace(p.Text) == "" {
		return e, BadRequest("token: is needed: the access token or API key that a client sends")
	}
	select {
	case a.exams <- struct{}{}:
		defer func() { <-a.exams }()
	default:
		return e, busy(fmt.Sprintf("%d tokens are being tested: try again later", mostExams))
	}
	ctx, cancel := context.WithTimeout(ctx, longestExam)
	defer cancel()
	if e, err = a.deps.WhatIf.Examine(ctx, p.Text, p.View); err != nil {
		return e, err
	}
	result := "accepted"
	if !e.Good {
		result = e.Reason
	}
	a.acted(who, &record.Record{Event: "token tested", View: p.View, Reason: result})
	return e, nil
}

// decision returns a record as the operator may read it.
func (o Operator) decision(i *recent.Item) Decision {
	d := Decision{*i.Shown(o.May(RoleAuditor)), i.Cursor.String()}
	d.Replica = i.Replica
	// clients choose them
	for _, text := range [...]*string{&d.Name, &d.Original, &d.File, &d.Reason, &d.Client, &d.Agent} {
		*text = record.Clip(*text)
	}
	return d
}

// shown returns records as the operator may read them.
func (o Operator) shown(items []*recent.Item) (all []Decision) {
	for _, i := range items {
		all = append(all, o.decision(i))
	}
	return all
}

// partial returns the reason why records may be missing. The cause is in the log.
func partial(err error) string {
	if err == nil {
		return ""
	}
	return "Redis does not answer: what other replicas have recorded may be missing"
}

// ReadQuery reads the parameters of a URL. Of limit, before, last and pace, only those in allowed are
// read. Its error is a *Refusal.
func ReadQuery(values url.Values, allowed ...string) (q recent.Query, err error) {
	bad := func(name string, want string) error {
		return BadRequest(fmt.Sprintf("%s: %q: want %s", name, values.Get(name), want))
	}
	known := []string{"user", "id", "session", "upstream", "name", "rule", "kind", "decision", "outcome", "address",
		"user_agent", "since", "until"}
	if err := onlyOnce(values, append(known, allowed...)...); err != nil {
		return q, err
	}
	list := func(name string) []string {
		if text := values.Get(name); text != "" {
			return strings.Split(text, ",")
		}
		return nil
	}
	q.Filter = record.Filter{
		User:          values.Get("user"),
		ID:            values.Get("id"),
		Session:       values.Get("session"),
		Upstream:      values.Get("upstream"),
		Name:          values.Get("name"),
		Rule:          values.Get("rule"),
		ClientAddress: values.Get("address"),
		UserAgent:     values.Get("user_agent"),
		Kinds:         list("kind"),
		Decisions:     list("decision"),
		Outcomes:      list("outcome"),
	}
	if err := record.CheckAddress(q.ClientAddress); err != nil {
		return q, bad("address", "an address, or a network such as 10.0.0.0/8")
	}
	now := time.Now()
	for name, to := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if *to, err = readTime(values.Get(name), now); err != nil {
			return q, bad(name, "a time such as 2026-11-23T08:00:00Z, or how long ago, such as 24h")
		}
	}
	if text := values.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > mostPage {
			return q, bad("limit", fmt.Sprintf("1 to %d", mostPage))
		}
	}
	if text := values.Get("before"); text != "" {
		if q.Before, err = recent.ParseCursor(text); err != nil {
			return q, bad("before", "the cursor of a record")
		}
	}
	return q, nil
}

// readTime reads a time, or a duration before now.
func readTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	return time.Parse(time.RFC3339, text)
}

// oneCall returns all that the gateway has of a call.
func oneCall(ctx context.Context, a *API, who Operator, id string) (answer Call, err error) {
	found := a.deps.Recent.Find(ctx, recent.Query{Filter: record.Filter{ID: id, Kinds: []string{record.KindCall}}})
	if len(found.Items) == 0 {
		message := fmt.Sprintf("no call %q is kept any more: admin.api.recent_bytes says how much is", id)
		if found.Partial != nil {
			message = partial(found.Partial)
		}
		return answer, refusal(http.StatusNotFound, failure.AdminNotFound, message)
	}
	item := found.Items[0]
	walked, ok := item.Record.Trail.View()
	unknown := forgotten
	if !ok && item.Replica != a.deps.Self {
		text, err := a.deps.Replicas.CallAt(ctx, item.Replica, id, who.Roles)
		if err == nil {
			return answer, json.Unmarshal(text, &answer)
		}
		unknown = err.Error()
	}
	d := who.decision(item)
	answer = Call{
		ID:       id,
		Record:   d,
		Layers:   layers(&d),
		Now:      decideNow(ctx, a, &d),
		Steps:    []Step{},
		Messages: []Message{},
		Similar:  some(who.shown(similar(ctx, a, &d))),
		Partial:  partial(found.Partial),
	}
	if ok {
		answer.tell(walked, &d, who.May(RoleAuditor))
	} else {
		answer.NoTrail = unknown
	}
	var arguments mcp.Raw
	if answer.Values {
		arguments = sentArguments(walked)
	}
	answer.Curl, answer.Arguments = curl(a.deps.Configuration.State(), &d, arguments), arguments != nil
	return answer, nil
}

// mostSimilar bounds the similar calls that are shown.
const mostSimilar = 10

// similar returns the last other calls of the same target.
func similar(ctx context.Context, a *API, d *Decision) (others []*recent.Item) {
	name := cmp.Or(d.Original, d.Name)
	if name == "" {
		return nil
	}
	found := a.deps.Recent.Find(ctx, recent.Query{
		Filter: record.Filter{Kinds: []string{record.KindCall}, Upstream: d.Upstream, Name: name},
		Limit:  mostSimilar + 1,
	})
	for _, item := range found.Items {
		if item.Record.ID != d.ID && len(others) < mostSimilar {
			others = append(others, item)
		}
	}
	return others
}
