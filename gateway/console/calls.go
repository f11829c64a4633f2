package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// callsPage shows recent records, newest first, and follows new ones.
var callsPage = page{
	path: "/calls", title: "Calls", menu: "Calls", look: "calls", role: admin.RoleViewer,
	show: showCalls, stream: followCalls,
}

// mostCalls bounds the records on a page.
const mostCalls = 50

// searched are the fields of the search, named as the parameters that admin.ReadQuery reads.
var searched = []string{"user", "name", "upstream", "session", "rule", "kind", "decision", "outcome", "since"}

type callsData struct {
	admin.Page
	Asked   map[string]string // by the names of fields
	Problem string            // why nothing was found
	Newest  bool              // it is the first page
	After   string            // the cursor of the newest record
	Older   string            // the URL of the next page
	All     string            // of the same search from its first page
	Live    string            // of following records

	Kinds, Decided, Outcomes, Times []choice
}

// choice is an option of a form.
type choice struct {
	Value, Text string
	Chosen      bool
}

func showCalls(v *visit) (any, error) {
	query, asked := v.search()
	d := callsData{
		Asked: asked, Newest: v.form("before") == "",
		Kinds: choices(asked["kind"], record.KindCall, "calls", "all", "everything", record.KindSignIn, "sign-ins",
			record.KindSession, "sessions", record.KindRefused, "refused requests", record.KindLists, "changed lists",
			record.KindPin, "not approved definitions", record.KindDeceit, "deceiving definitions", record.KindCredential,
			"credentials", record.KindApproval, "approvals", record.KindReload, "reloads", record.KindAdmin, "operators"),
		Decided: choices(asked["decision"], "", "any", "allow", "allowed", "ask", "asked first", "deny", "denied", "unknown",
			"unknown name", "deny,unknown", "denied or unknown"),
		Outcomes: choices(asked["outcome"], "", "any", "ok", "ok", "tool-error", "tool-error", "ask", "ask", "cancelled",
			"cancelled", "not-approved", "not-approved",
			"sign-in-needed", "sign-in-needed", "invalid", "invalid", "limited", "limited", "upstream", "upstream",
			"unavailable", "unavailable", "error", "error", "internal", "internal"),
		Times: choices(asked["since"], "", "any time", "5m", "last 5 minutes", "1h", "last hour", "24h", "last day"),
	}
	all := url.Values{}
	for name, value := range asked {
		if value != "" {
			all.Set(name, value)
		}
	}
	d.All = Root + "/calls?" + all.Encode()
	if before := v.form("before"); before != "" {
		query.Set("before", before)
	}
	wanted, err := admin.ReadQuery(query, "before")
	if why, bad := refused(err); bad {
		d.Problem = why
		return d, nil
	}
	wanted.Limit = mostCalls
	d.Page, err = ask(v, admin.ListDecisions, wanted)
	if d.Next != "" {
		all.Set("before", d.Next)
		d.Older = Root + "/calls?" + all.Encode()
		all.Del("before")
	}
	if len(d.Decisions) > 0 {
		all.Set("after", d.Decisions[0].Cursor)
	}
	d.Live = Root + "/calls?" + all.Encode()
	return d, err
}

// search reads the search from the URL: as parameters, and as the form shows it.
func (v *visit) search() (query url.Values, asked map[string]string) {
	query, asked = url.Values{}, make(map[string]string)
	for _, name := range searched {
		asked[name] = v.form(name)
		if asked[name] != "" {
			query.Set(name, asked[name])
		}
	}
	switch asked["kind"] {
	case "":
		query.Set("kind", record.KindCall)
	case "all":
		query.Del("kind")
	}
	return query, asked
}

// choices makes options of values and texts in turn. A chosen value that is none of them is one,
// too, so that every URL has its form.
func choices(chosen string, pairs ...string) (all []choice) {
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, choice{pairs[i], pairs[i+1], pairs[i] == chosen})
	}
	if chosen != "" && !slices.ContainsFunc(all, func(c choice) bool { return c.Chosen }) {
		all = append(all, choice{chosen, chosen, true})
	}
	return all
}

// tailPace bounds the records a second for each viewer.
const tailPace = 30

// followCalls sends a row for each record that comes, from the newest one of the page on.
func followCalls(ctx context.Context, v *visit, out *events) error {
	query, _ := v.search()
	wanted, err := admin.ReadQuery(query)
	q := admin.LiveQuestion{Filter: wanted.Filter, Pace: tailPace}
	if after := cmp.Or(v.r.Header.Get("Last-Event-ID"), v.form("after")); err == nil && after != "" {
		q.After, err = recent.ParseCursor(after)
	}
	if err != nil {
		return err
	}
	return v.c.deps.API.Follow(v.r.WithContext(ctx), v.who.Operator, q,
		func(records []admin.Decision, missed int64) error {
			if missed == 0 && len(records) == 0 {
				return out.write([]byte(": alive\n\n"))
			}
			if missed > 0 {
				if err := out.send("row", "", "missed", missed); err != nil {
					return err
				}
			}
			for _, d := range records {
				if err := out.send("row", d.Cursor, "row", d); err != nil {
					return err
				}
			}
			return nil
		})
}
