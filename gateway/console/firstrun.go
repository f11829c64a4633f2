package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// firstRunPage leads from the servers that clients have to the first call.
var firstRunPage = page{
	path: "/first-run", title: "First run", menu: "First run", look: "firstrun", role: admin.RoleViewer,
	show: showFirstRun, fresh: 2 * time.Second,
}

// mostFirstCalls bounds the calls that the page shows.
const mostFirstCalls = "5"

type firstRunData struct {
	Clients admin.SetupClients
	Calls   []admin.Decision // newest first

	Text     string // that was pasted
	Problems []admin.Problem
	Made     *admin.SetupDraft // nil if nothing was pasted
	Values   map[string]string // of variables, as far as they were given
	Tried    *admin.Probed     // nil if the servers were not tried
	Untried  []admin.Problem   // why they could not be
}

func showFirstRun(v *visit) (any, error) {
	d := firstRunData{}
	if err := v.get("/setup", nil, &d.Clients); err != nil {
		return nil, err
	}
	page, err := v.decisions(url.Values{"kind": {record.KindCall}, "limit": {mostFirstCalls}})
	d.Calls = page.Decisions
	return d, err
}

// valuePrefix is in front of the names of fields that have the values of variables.
const valuePrefix = "value-"

// makeServers makes YAML of what was pasted, and tries the servers if it was asked to.
var makeServers = action{path: "/first-run", role: admin.RoleOperator, do: func(v *visit) error {
	shown, err := showFirstRun(v)
	if err != nil {
		return err
	}
	d := shown.(firstRunData)
	d.Text, d.Values = strings.ReplaceAll(v.r.FormValue("text"), "\r\n", "\n"), make(map[string]string)
	for name, values := range v.r.PostForm {
		if variable, ok := strings.CutPrefix(name, valuePrefix); ok && values[0] != "" {
			d.Values[variable] = values[0]
		}
	}
	made := &admin.SetupDraft{}
	if err := v.ask(http.MethodPost, "/setup", admin.SetupText{Text: d.Text}, made); err != nil {
		if d.Problems = refusedProblems(err); d.Problems == nil {
			return err
		}
		v.render(http.StatusOK, firstRunPage, d)
		return nil
	}
	d.Made = made
	if v.form("try") != "" {
		tried := &admin.Probed{}
		if err := v.ask(http.MethodPost, "/setup/probe", admin.Attempt{Text: d.Text, Values: d.Values}, tried); err == nil {
			d.Tried = tried
		} else if d.Untried = refusedProblems(err); d.Untried == nil {
			d.Untried = []admin.Problem{{Message: err.Error()}}
		}
	}
	v.render(http.StatusOK, firstRunPage, d)
	return nil
}}
