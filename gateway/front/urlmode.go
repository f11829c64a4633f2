package front

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// A server of 2026-07-28 that sent the user to a URL asks again until the user is done there. A
// client of 2025-11-25 would pass that on each time; instead, the gateway tells it the id of the
// question when the user is done.

const (
	// firstLook and lastLook are the first and the longest wait before the server is asked
	// again whether the user is done.
	firstLook = time.Second
	lastLook  = 15 * time.Second
)

// opened are the URLs of one call that the user has agreed to visit.
type opened struct {
	requests []mcp.InputRequest // as they were put to the client
	since    time.Time          // when the user last agreed to one
	looks    int                // since then
}

func urlOf(q mcp.InputRequest) string {
	if q.Method != mcp.MethodElicit || !wire.IsURLMode(q.Params) {
		return ""
	}
	return q.Params.At("url").Text()
}

func hasURL(requests []mcp.InputRequest, url string) bool {
	return url != "" && slices.ContainsFunc(requests, func(q mcp.InputRequest) bool { return urlOf(q) == url })
}

// add adds the questions that were answered with yes.
func (o *opened) add(put []mcp.InputRequest, given map[string]mcp.Raw) {
	for _, q := range put {
		if urlOf(q) != "" && given[q.Key].At("action").Text() == "accept" {
			o.requests = append(o.requests, q)
			o.since, o.looks = time.Now(), 0
		}
	}
}

// wait waits before the server is asked again. It returns false if the user took longer than
// the limit.
func (o *opened) wait(ctx context.Context, limit time.Duration) bool {
	if time.Since(o.since) >= limit {
		return false
	}
	pause := min(firstLook<<min(o.looks, 4), lastLook)
	o.looks++
	_ = sleep(ctx, pause) // the caller checks ctx
	return true
}

// withID adds the id that this revision requires to a question that sends the user to a URL,
// unless it has one.
func withID(rev *wire.Revision, q mcp.InputRequest, params mcp.Raw) mcp.Raw {
	if !rev.ElicitationIDs || urlOf(q) == "" {
		return params
	}
	if _, ok := params.Member("elicitationId"); ok {
		return params
	}
	return params.With("elicitationId", mcp.String("e-"+strings.ToLower(rand.Text())))
}

// tellDone tells the client that the user is done at the URLs that the server does not ask for
// any more.
func (r *rounds) tellDone(asked []mcp.InputRequest) {
	r.urls.requests = slices.DeleteFunc(r.urls.requests, func(q mcp.InputRequest) bool {
		if hasURL(asked, urlOf(q)) {
			return false
		}
		if id, ok := q.Params.Member("elicitationId"); ok {
			r.notify(mcp.Event{Method: mcp.NoteElicitationComplete, Params: mcp.Object("elicitationId", id)})
		}
		return true
	})
}

// urlRequired is URLElicitationRequiredError (2025-11-25 client/elicitation): the call can be
// made again when the user is done at these URLs.
func (r *rounds) urlRequired(requests []mcp.InputRequest) error {
	var list []mcp.Raw
	for _, q := range requests {
		params, err := r.rev.Ask(q.Method, q.Params)
		if _, ok := declared(r.call.Caps, q); !ok || err != nil || !r.rev.ElicitationIDs {
			return unasked("the server needs the user to open a page first, and this client cannot be asked to do that")
		}
		list = append(list, withID(r.rev, q, params))
	}
	return mcp.Errorf(failure.URLNeeded, "The user has to open a page before this request can be made").
		WithData(mcp.Object("elicitations", mcp.Array(list...)))
}
