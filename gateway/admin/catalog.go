package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

const (
	// mostLists bounds the lists that are made at a time, since they slow calls down; others wait.
	mostLists = 2
	// longestList bounds the time of a list, with waiting.
	longestList = 20 * time.Second
	// mostTries bounds the tools that are tried at a time.
	mostTries = 4
	// longestTry bounds the time of a trial: the listener allows a minute for an answer.
	longestTry = 45 * time.Second
)

// ListQuestion asks for a list as a caller gets it.
type ListQuestion struct {
	// Kind is tools (the default), prompts, resources, templates or skills.
	Kind   string   `json:"kind,omitempty"`
	Issuer string   `json:"issuer,omitempty"`
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	Client string   `json:"client,omitempty"`
	Claims mcp.Raw  `json:"claims,omitempty"`
	View   string   `json:"view,omitempty"`
	// Capabilities are those that the client declares: a ClientCapabilities object. Default: nothing.
	Capabilities mcp.Raw `json:"capabilities,omitempty"`
	// Name asks for the entries of this public name, upstream/name, alone, with their definitions.
	Name string `json:"name,omitempty"`
	// Offset is the number of skipped entries; Limit bounds those of the answer.
	Offset int `json:"offset,omitempty"`
	Limit  int `json:"limit,omitempty"`
}

// ListAnswer has the entries that a caller gets, in the order of the list, and then those that the
// caller does not get.
type ListAnswer struct {
	Entries []ListEntry `json:"entries"`
	// Next is the offset of the next page, 0 for none.
	Next int `json:"next,omitempty"`
	// Shown and Hidden count the entries on all pages.
	Shown  int `json:"shown"`
	Hidden int `json:"hidden"`
	// Tokens are estimates for all shown entries, of tools alone.
	Tokens *ListTokens `json:"tokens,omitempty"`
	// Doubts tell what known clients do with so many tools.
	Doubts []string `json:"doubts,omitempty"`
	// Notes tell what is unknown or misleading.
	Notes []string `json:"notes,omitempty"`
}

// ListTokens estimates the tokens of tools in a model's context.
type ListTokens struct {
	// Listed counts them as the caller gets them, Full and Short with whole and with short descriptions.
	Listed int `json:"listed"`
	Full   int `json:"full"`
	Short  int `json:"short"`
}

// ListEntry is an entry of a list.
type ListEntry struct {
	// Name is the public name or URI; "" for an entry without one.
	Name string `json:"name,omitempty"`
	// Original is the name at Upstream. Both are "" for the gateway's own.
	Upstream string `json:"upstream,omitempty"`
	Original string `json:"original,omitempty"`
	Title    string `json:"title,omitempty"`
	// Description is the one that the caller gets.
	Description string `json:"description,omitempty"`
	Shown       bool   `json:"shown"`
	// By names what hides an entry: policy, view, client, pin or server; Reason says it in words.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Call is the decision of policy on a call of it without arguments: allow, ask or deny.
	Call string `json:"call,omitempty"`
	// Rule is the rule that decides, RuleAt its place.
	Rule   string      `json:"rule,omitempty"`
	RuleAt string      `json:"rule_at,omitempty"`
	Tokens *ListTokens `json:"tokens,omitempty"`
	// Cuts tell what known clients cut or refuse of it.
	Cuts []string `json:"cuts,omitempty"`
	// Definition is the entry as the caller gets it, Full with its whole description and schema.
	// Both are for a question with a name.
	Definition mcp.Raw `json:"definition,omitempty"`
	Full       mcp.Raw `json:"full,omitempty"`
}

// listAs returns a list as a caller gets it.
func listAs(ctx context.Context, a *API, _ Operator, q ListQuestion) (answer ListAnswer, err error) {
	withoutNull(&q.Claims, &q.Capabilities)
	q.Kind, q.Limit = cmp.Or(q.Kind, mcp.KindTools), cmp.Or(q.Limit, defaultPage)
	if q.Offset < 0 || q.Limit < 1 || q.Limit > mostPage {
		return answer, BadRequest(fmt.Sprintf("offset, limit: want 0 or more, and 1 to %d", mostPage))
	}
	ctx, cancel := context.WithTimeout(ctx, longestList)
	defer cancel()
	select {
	case a.lists <- struct{}{}:
		defer func() { <-a.lists }()
	case <-ctx.Done():
		return answer, busy("others ask for lists: try again later")
	}
	answer, err = a.deps.WhatIf.Lists(ctx, q)
	if ctx.Err() != nil {
		return answer, busy(fmt.Sprintf("the list takes longer than %s", longestList))
	}
	answer.Entries = some(answer.Entries)
	return answer, err
}

// withoutNull replaces JSON's null by nothing.
func withoutNull(values ...*mcp.Raw) {
	for _, v := range values {
		if v.IsNull() {
			*v = nil
		}
	}
}

// Trial is a tool to be tried.
type Trial struct {
	Name      string  `json:"name"`
	Arguments mcp.Raw `json:"arguments,omitempty"`
	View      string  `json:"view,omitempty"`
	// Capabilities are those that the caller declares. Default: its user can be asked in a form and
	// sent to a URL.
	Capabilities mcp.Raw `json:"capabilities,omitempty"`
}

// Tried is the result of a Trial. Either Result, Error or Asked is set.
type Tried struct {
	// ID is that of the call, as in records.
	ID string `json:"id"`
	// Result is the one that the caller's client would get.
	Result mcp.Raw `json:"result,omitempty"`
	// Error is the error that the client would get.
	Error *TriedError `json:"error,omitempty"`
	// Asked are the questions that the call put to its user, in words.
	Asked []string `json:"asked,omitempty"`
	// Note tells what is missing, and why.
	Note string  `json:"note,omitempty"`
	Took float64 `json:"took_ms"`
}

// ErrNobody is for a tool tried without a caller, where callers must be identified.
var ErrNobody = refusal(http.StatusForbidden, failure.AdminRole,
	"a tool is tried as the person who has signed in to the console: a token, or this machine, is nobody whom policy knows")

// TriedError is the error of a call. Name is as in docs/errors.md, "" for one of the server.
type TriedError struct {
	Code    int    `json:"code"`
	Name    string `json:"name,omitempty"`
	Message string `json:"message"`
}

// try calls a tool as the person who asks for it.
func try(ctx context.Context, a *API, who Operator, t Trial) (tried Tried, err error) {
	withoutNull(&t.Arguments, &t.Capabilities)
	select {
	case a.tries <- struct{}{}:
		defer func() { <-a.tries }()
	default:
		return tried, busy(fmt.Sprintf("%d tools are being tried: try again later", mostTries))
	}
	ctx, cancel := context.WithTimeout(ctx, longestTry)
	defer cancel()
	if tried, err = a.deps.WhatIf.Try(ctx, who.Caller, t); err != nil {
		return tried, err
	}
	a.acted(who, &record.Record{Event: "tried", ID: tried.ID, View: t.View, Method: mcp.MethodToolsCall, Name: t.Name})
	return tried, nil
}

// mostTrial bounds the body of a request with arguments of a tool, in bytes.
const mostTrial = 1 << 20
