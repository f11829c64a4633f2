package console

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// policyPage shows the rules, how often each decided, and the decision on a call.
var policyPage = page{
	path: "/policy", title: "Policy", menu: "Policy", look: "policy", role: admin.RoleViewer,
	show: showPolicy, fresh: 5 * time.Second,
}

// mostRules bounds the rules on a page, and mostPatterns those that a rule shows of each kind.
const (
	mostRules    = 500
	mostPatterns = 6
)

// askable are the methods about which policy can be asked.
var askable = []string{mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodSkillsGet}

type policyData struct {
	admin.Policy
	Find  string // a part of the name, the callers or a pattern that was asked for
	Never bool   // only those that never decided
	All   int    // rules that fit
	Idle  int    // rules that never decided

	Methods  []string
	Question question
	Answer   *admin.Answer
	Problem  string // why there is no answer
}

// question is the question in the form, as it was typed.
type question struct {
	Method, Name, User, Issuer, Groups, Scopes, Client, View, Args string
}

func showPolicy(v *visit) (any, error) {
	d := policyData{Find: v.form("find"), Never: v.form("never") != "", Methods: askable}
	var err error
	if d.Policy, err = ask(v, admin.GetRules, admin.None{}); err != nil {
		return nil, err
	}
	for _, r := range d.Rules {
		if r.Decided == 0 {
			d.Idle++
		}
	}
	d.Rules = slices.DeleteFunc(d.Rules, func(r admin.Rule) bool { return d.Never && r.Decided > 0 || !d.fits(r) })
	d.All = len(d.Rules)
	d.Rules = d.Rules[:min(d.All, mostRules)]
	if wantsEvents(v.r) {
		return d, nil // the question is not within the live part
	}
	return d, d.explain(v)
}

// fits reports whether a rule matches the search.
func (d *policyData) fits(r admin.Rule) bool {
	want := strings.ToLower(d.Find)
	return slices.ContainsFunc(slices.Concat([]string{r.Name, r.Who, r.When}, r.Allow, r.Deny, r.Ask),
		func(text string) bool {
			return strings.Contains(strings.ToLower(text), want)
		})
}

// explain asks for the decision of policy on a call, if the form was sent.
func (d *policyData) explain(v *visit) error {
	q := question{
		Method: v.form("method"), Name: v.form("name"), User: v.form("user"), Issuer: v.form("issuer"),
		Groups: v.form("groups"), Scopes: v.form("scopes"),
		Client: v.form("client"), View: v.form("view"), Args: v.form("args"),
	}
	d.Question = q
	if q.Name == "" {
		return nil
	}
	asked := admin.Question{
		Method: q.Method,
		Name:   q.Name,
		Issuer: q.Issuer,
		User:   q.User,
		Groups: listed(q.Groups),
		Scopes: listed(q.Scopes),
		Client: q.Client,
		View:   q.View,
	}
	if q.Args != "" {
		asked.Args = mcp.Raw(q.Args)
		if !asked.Args.IsObject() {
			d.Problem = "Arguments: want a JSON object, such as {\"id\": 7}."
			return nil
		}
	}
	answer, err := ask(v, admin.Explain, asked)
	if why, bad := refused(err, http.StatusBadRequest); bad {
		d.Problem = why
		return nil
	}
	d.Answer = &answer
	return err
}

// listed splits a typed text at commas.
func listed(text string) (all []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// patterns are those of a rule for one effect, as far as a page shows them.
type patterns struct {
	Effect, Class string
	Shown         []string
	More          int
}

// effects returns the patterns that a rule allows, denies and asks about.
func effects(r admin.Rule) (all []patterns) {
	for _, one := range []struct {
		effect, class string
		patterns      []string
	}{{"deny", "bad", r.Deny}, {"ask", "warn", r.Ask}, {"allow", "good", r.Allow}} {
		if n := len(one.patterns); n > 0 {
			all = append(all, patterns{one.effect, one.class, one.patterns[:min(n, mostPatterns)], max(0, n-mostPatterns)})
		}
	}
	return all
}
