package console

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// firstRunPage leads from the servers in clients' files to the first call.
var firstRunPage = page{
	path: "/first-run", title: "First run", menu: "First run", look: "firstrun", role: admin.RoleViewer,
	show: showFirstRun, fresh: 2 * time.Second,
}

// mostFirstCalls bounds the calls that the page shows.
const mostFirstCalls = 5

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
	clients, err := ask(v, admin.GetSetup, admin.None{})
	if err != nil {
		return nil, err
	}
	page, err := ask(v, admin.ListDecisions, ofKind(mostFirstCalls, record.KindCall))
	return firstRunData{Clients: clients, Calls: page.Decisions}, err
}

// valuePrefix begins the names of fields with the values of variables.
const valuePrefix = "value-"

// makeServers makes YAML of a pasted text, and tries the servers if it was asked to.
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
	made, err := ask(v, admin.MakeSetup, admin.SetupText{Text: d.Text})
	if bad, ok := errors.AsType[*admin.BadDraft](err); ok {
		d.Problems = bad.Problems
		v.render(http.StatusOK, firstRunPage, d)
		return nil
	}
	if err != nil {
		return err
	}
	d.Made = &made
	if v.form("try") != "" {
		tried, err := ask(v, admin.ProbeServers, admin.Attempt{Text: d.Text, Values: d.Values})
		bad, ok := errors.AsType[*admin.BadDraft](err)
		why, not := refused(err)
		switch {
		case err == nil:
			d.Tried = &tried
		case ok:
			d.Untried = bad.Problems
		case not:
			d.Untried = []admin.Problem{{Message: why}}
		default:
			return err
		}
	}
	v.render(http.StatusOK, firstRunPage, d)
	return nil
}}
