package console

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// approvalsPage shows the calls that wait for another person's approval, and past decisions.
var approvalsPage = page{
	path: "/approvals", title: "Approvals", menu: "Approvals", look: "approvals", role: admin.Approvers,
	show: showApprovals, fresh: 2 * time.Second,
}

// decideApproval decides on a waiting call, bound to what the page showed of it.
var decideApproval = action{path: "/approvals/decide", role: admin.Approvers, do: func(v *visit) error {
	choice := admin.Choice{ID: v.form("id"), Decision: v.form("decision"), Digest: v.form("digest"),
		Reason: v.form("reason")}
	if _, err := ask(v, admin.Decide, choice); err != nil {
		return err
	}
	return v.redirect("/approvals", map[string]string{admin.Approve: "approved", admin.Refuse: "refused"}[choice.Decision])
}}

type approvalsData struct {
	admin.Approvals
	Given   []admin.Decision // newest first
	SeesAll bool             // the visitor may see what others decided
}

func showApprovals(v *visit) (any, error) {
	all, err := ask(v, admin.ListApprovals, admin.None{})
	d := approvalsData{Approvals: all, SeesAll: v.Can(admin.RoleViewer)}
	if err != nil || !d.SeesAll {
		return d, err
	}
	page, err := ask(v, admin.ListDecisions, ofKind(50, record.KindApproval))
	d.Given = page.Decisions
	return d, err
}

// ofKind asks for the last records of a kind.
func ofKind(most int, kinds ...string) recent.Query {
	return recent.Query{Filter: record.Filter{Kinds: kinds}, Limit: most}
}
