package console

import (
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// approvalsPage shows the calls that wait for somebody else's approval, and what was decided.
var approvalsPage = page{
	path: "/approvals", title: "Approvals", menu: "Approvals", look: "approvals", role: admin.Approvers,
	show: showApprovals, fresh: 2 * time.Second,
}

// decideApproval decides on a call that waits, bound to what the page showed of it.
var decideApproval = action{path: "/approvals/decide", role: admin.Approvers, do: func(v *visit) error {
	choice := admin.Choice{Decision: v.form("decision"), Digest: v.form("digest"), Reason: v.form("reason")}
	if err := v.ask(http.MethodPost, "/approvals/"+url.PathEscape(v.form("id")), choice, nil); err != nil {
		return err
	}
	return v.redirect("/approvals", map[string]string{admin.Approve: "approved", admin.Refuse: "refused"}[choice.Decision])
}}

type approvalsData struct {
	Waiting []admin.Approval
	Partial string
	Given   []admin.Decision // newest first
	SeesAll bool             // whoever looks may see what others decided
}

func showApprovals(v *visit) (any, error) {
	var answer struct {
		Approvals []admin.Approval
		Partial   string
	}
	if err := v.get("/approvals", nil, &answer); err != nil {
		return nil, err
	}
	d := approvalsData{Waiting: answer.Approvals, Partial: answer.Partial, SeesAll: v.Can(admin.RoleViewer)}
	if !d.SeesAll {
		return d, nil
	}
	page, err := v.decisions(url.Values{"kind": {record.KindApproval}, "limit": {"50"}})
	d.Given = page.Decisions
	return d, err
}

// decisions are records as a page shows them.
type decisions struct {
	Decisions []admin.Decision
	Next      string
	Partial   string
}

// decisions asks for recent records.
func (v *visit) decisions(query url.Values) (d decisions, err error) {
	err = v.get("/decisions", query, &d)
	return d, err
}
