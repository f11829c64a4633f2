package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// CheckIssuers compares the issuers in rules with the accepted ones; without authentication there
// are none. A rule with an issuer that is not accepted applies to no caller. With several issuers,
// a rule that grants something has to say which issuer its users and groups belong to: each can
// have the same names.
func (c Config) CheckIssuers(accepted []string) error {
	var found problems.List
	for i, r := range c.Rules {
		found.At(elementPath("rules", i, r.Name)+": who", r.Who.checkIssuers(accepted, r.Allow != nil))
		if r.Approvers == nil {
			continue
		}
		if len(people(accepted)) == 0 {
			found.Add("%s: approvers: without auth.mode oauth nobody can prove to be one of them",
				elementPath("rules", i, r.Name))
		} else if err := r.Approvers.Who.checkIssuers(people(accepted), true); err != nil {
			found.Add("%s: approvers: who: %w", elementPath("rules", i, r.Name), err)
		}
	}
	return found.Err()
}

// CheckIssuers compares the issuers in limits with the accepted ones.
func (all Limits) CheckIssuers(accepted []string) error {
	var found problems.List
	for i, l := range all {
		found.At(elementPath("", i, l.Name)+": who", l.Who.checkIssuers(accepted, false))
	}
	return found.Err()
}

func (w Who) checkIssuers(accepted []string, gives bool) error {
	var found problems.List
	known := func(path, issuer string) {
		found.When(!slices.Contains(accepted, issuer), "%s: %q is not one of auth.issuers, so this fits nobody", path, issuer)
	}
	for i, issuer := range w.Issuers {
		known(fmt.Sprintf("issuers[%d]", i), issuer)
	}
	open := len(w.Scopes) > 0 || len(w.Clients) > 0 || len(w.Emails) > 0 || len(w.Claims) > 0
	for _, list := range []struct {
		key    string
		values []string
	}{{"users", w.Users}, {"groups", w.Groups}} {
		for i, value := range list.values {
			if issuer, _ := splitIssuer(value); issuer != "" {
				known(fmt.Sprintf("%s[%d]", list.key, i), issuer)
			} else {
				open = true
			}
		}
	}
	found.When(gives && open && len(w.Issuers) == 0 && len(people(accepted)) > 1,
		"there are several issuers, and each has users, groups, scopes and clients of its own: say under issuers which one is meant")
	return found.Err()
}

// people returns the issuers without that of API keys. The operator gives keys their users and
// groups, too, so a rule that names no issuer means them as well.
func people(accepted []string) []string {
	return slices.DeleteFunc(slices.Clone(accepted), func(issuer string) bool { return issuer == mcp.KeyIssuer })
}

// splitIssuer splits a user or group into an optional issuer and a name; issuer is "" if
// there is none.
func splitIssuer(value string) (issuer, name string) {
	issuer, name, found := strings.Cut(value, " ")
	if found && (strings.HasPrefix(issuer, "https://") || strings.HasPrefix(issuer, "http://")) {
		return issuer, name
	}
	return "", value
}
