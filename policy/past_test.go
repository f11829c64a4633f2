package policy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestReviewIsTheDecision: whatever Review tells of a call of which a part is not known is what
// Decide decides on the whole call; and of a call that is known as a whole, Review tells all.
func TestReviewIsTheDecision(t *testing.T) {
	whos := []Who{
		{}, {Users: []string{"ann"}}, {Groups: []string{"dev"}}, {Scopes: []string{"write"}}, {Emails: []string{"ann@x.org"}},
		{Claims: map[string][]string{"team": {"a"}}}, {Users: []string{"bob"}, Scopes: []string{"write"}},
	}
	whens := []string{
		"", "", "args.n > 1", `args.n == 1 || caller.user == "ann"`, `"write" in caller.scopes`, `caller.claims.team == "a"`,
		`caller.email == "ann@x.org" && args.n == 1`, `target.name == "x" || args.n == 2`, `args.none == 1`,
		`caller.claims.none == target.name`,
	}
	patterns := []string{"*:*", "tools:a/*", "tools:*/x", "prompts:*", "tools:b/y"}
	claims := []mcp.Raw{mcp.Raw(`{}`), mcp.Raw(`{"team":"a"}`), mcp.Raw(`{"email":"ann@x.org","email_verified":true}`),
		mcp.Raw(`{"team":["b","a"],"none":"x"}`)}
	told, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Default: rapid.SampledFrom([]string{DefaultAllow, DefaultDeny}).Draw(t, "default")}
		for i := range rapid.IntRange(0, 5).Draw(t, "rules") {
			r := Rule{Name: string(rune('p' + i)), Who: rapid.SampledFrom(whos).Draw(t, "who"),
				When: rapid.SampledFrom(whens).Draw(t, "when")}
			for _, to := range rapid.SliceOfNDistinct(rapid.SampledFrom([]*[]string{&r.Allow, &r.Ask, &r.Deny}), 1, 2,
				rapid.ID).Draw(t, "effects") {
				*to = []string{rapid.SampledFrom(patterns).Draw(t, "pattern")}
			}
			cfg.Rules = append(cfg.Rules, r)
		}
		views := []View{{Name: "v", Who: rapid.SampledFrom(whos).Draw(t, "view for"),
			Show: []string{rapid.SampledFrom(patterns).Draw(t, "shows")}}}
		p, err := New(cfg, views...)
		if err != nil {
			t.Fatal(err)
		}
		caller := mcp.Caller{Issuer: "https://idp.example.com",
			Subject: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"),
			Groups:  rapid.SampledFrom([][]string{nil, {"dev"}}).Draw(t, "groups"),
			Scopes:  rapid.SampledFrom([][]string{nil, {"read", "write"}}).Draw(t, "scopes"),
			Claims:  rapid.SampledFrom(claims).Draw(t, "claims"),
			View:    rapid.SampledFrom([]string{"", "", "v", "gone"}).Draw(t, "view"),
		}
		target := mcp.Target{
			Kind:     rapid.SampledFrom([]string{mcp.KindTools, mcp.KindPrompts}).Draw(t, "kind"),
			Upstream: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "upstream"),
			Name:     rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"),
		}
		args := rapid.SampledFrom([]mcp.Raw{nil, mcp.Raw(`{"n":1}`), mcp.Raw(`{"n":2}`), mcp.Raw(`{"n":"1"}`)}).Draw(t,
			"arguments")
		want := p.Decide(t.Context(), &caller, target, args)

		past := Past{Caller: caller, Target: target, Arguments: args, ArgumentsKnown: true}
		if o := past.Review(t.Context(), p); !o.Certain || !o.RuleCertain || o.Missing != 0 || o.MayApply != nil ||
			o.Decision != want {
			t.Fatalf("all is known: %+v, want %+v", o, want)
		} else if o.Rule != "" && !slices.ContainsFunc(o.Applies, func(i int) bool { return cfg.Rules[i].Name == o.Rule }) {
			t.Fatalf("%q does not apply: %+v", o.Rule, o)
		}
		if rapid.Bool().Draw(t, "arguments are not recorded") {
			past.Arguments, past.ArgumentsKnown = nil, false
		}
		if rapid.Bool().Draw(t, "claims are not recorded") {
			past.Caller.Scopes, past.Caller.Claims, past.SignedIn = nil, nil, true
		}
		o := past.Review(t.Context(), p)
		all++
		switch {
		case o.Certain && o.Effect != want.Effect, o.Certain && o.RuleCertain && o.Rule != want.Rule:
			t.Fatalf("%+v, want %+v", o, want)
		case !o.Certain && o.Missing == 0:
			t.Fatalf("nothing is missing: %+v", o)
		case o.Certain:
			told++
		}
	})
	if told*4 < all {
		t.Errorf("only %d of %d are told", told, all)
	}
}
