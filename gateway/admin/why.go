package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// layers returns the decision of each part of the gateway on a call, from the outside in, as in its
// record.
func layers(d *Decision) (all []Layer) {
	add := func(layer string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
		if len(parts) > 0 {
			all = append(all, Layer{layer, strings.Join(parts, ", ")})
		}
	}
	who := labelled("user ", d.User)
	if who == "" {
		who = "nobody is asked to sign in"
	}
	add("identity", who, labelled("groups ", strings.Join(d.Groups, " ")), labelled("client ", d.Client),
		labelled("of ", d.Issuer), labelled("at the view ", d.View))
	add("front", strings.TrimSpace(d.Method+" "+d.Name), labelled("revision ", d.Revision), d.Era,
		labelled("continues the call ", d.Continues))
	add("policy", append(decided(d), d.Explained...)...)
	if d.Approval != "" {
		add("approval", d.Approval, labelled("by ", d.Approver))
	}
	if d.Limit != "" {
		add("limits", "the limit "+d.Limit+" was reached")
	}
	if d.Upstream != "" {
		add("server", labelled(d.Upstream+": ", d.Original), labelled("revision ", d.UpstreamRevision), d.UpstreamEra,
			labelled("executed: ", d.Executed), labelled("said: ", d.ServerError))
	}
	code := ""
	if d.Code != 0 {
		code = fmt.Sprintf("code %d", d.Code)
	}
	add("answer", d.Outcome, d.Reason, d.Error, code, fmt.Sprintf("after %g ms", millis(d.Duration)))
	return all
}

func labelled(label, text string) string {
	if text == "" {
		return ""
	}
	return label + text
}

// decided describes the decision of policy, and its rule.
func decided(d *Decision) []string {
	by := labelled("rule ", d.Rule)
	switch {
	case d.Decision == "":
		return []string{"needs no decision"}
	case d.Decision == "unknown":
		return []string{"unknown: no server offers this name"}
	case by == "":
		by = "by the default, since no rule applies"
	}
	return []string{d.Decision, by, labelled("at ", d.RuleAt)}
}

// decideNow asks policy about a call again. It returns nil if there is no answer.
func decideNow(ctx context.Context, a *API, d *Decision) *Answer {
	q := Question{Method: d.Method, Issuer: d.Issuer, User: d.User, Groups: d.Groups, Client: d.Client, View: d.View}
	if d.Decision == "unknown" || len(d.Explained) > 0 {
		return nil // rules have nothing to do with it, or it depends on arguments
	}
	switch d.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodSkillsGet:
	default:
		return nil
	}
	if q.Name = d.Name; d.Upstream != "" && d.Original != "" {
		q.Name = d.Upstream + "/" + d.Original
	}
	answer, err := a.deps.WhatIf.Explain(ctx, q)
	if err != nil {
		return nil
	}
	answer.Notes = append(answer.Notes,
		"This is by the configuration as it is now, without the arguments of the call and without scopes and other claims of the token, which are not recorded.")
	return &answer
}
