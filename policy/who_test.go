package policy

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestWho(t *testing.T) {
	claims := `{"department":"sales","roles":["reader","writer"],"level":3,"big":123456789012345678901234567890,"vip":true,"none":null,"nested":{"a":"b"},` +
		`"email":"alice@acme.example","email_verified":true}`
	alice := mcp.Caller{Issuer: "https://a.example", Subject: "alice", ClientID: "cli", Groups: []string{"dev", "sre"},
		Scopes: []string{"mcp", "read"}, Claims: mcp.Raw(claims)}
	with := func(change func(c *mcp.Caller)) mcp.Caller {
		c := alice
		change(&c)
		return c
	}
	claimsOf := func(text string) mcp.Caller { return with(func(c *mcp.Caller) { c.Claims = mcp.Raw(text) }) }
	tests := []struct {
		name   string
		who    Who
		caller mcp.Caller
		want   string // the key that does not fit
	}{
		{"everybody", Who{}, alice, ""},
		{"nobody in particular", Who{}, mcp.Caller{}, ""},
		{"the user", Who{Users: []string{"bob", "alice"}}, alice, ""},
		{"another user", Who{Users: []string{"bob"}}, alice, "users"},
		{"a user in another case", Who{Users: []string{"Alice"}}, alice, "users"},
		{"the caller without authentication", Who{Users: []string{"alice"}}, mcp.Caller{}, "users"},
		{"the user at the issuer", Who{Users: []string{"https://a.example alice"}}, alice, ""},
		{"the user at another issuer", Who{Users: []string{"https://b.example alice"}}, alice, "users"},
		{"the group at another issuer", Who{Groups: []string{"https://b.example dev"}}, alice, "groups"},
		{"the group at the issuer", Who{Groups: []string{"https://a.example dev"}}, alice, ""},
		{"the issuer beside the group", Who{Issuers: []string{"https://b.example"}, Groups: []string{"dev"}},
			alice, "issuers"},
		{"one of several groups", Who{Groups: []string{"sre", "hr"}}, alice, ""},
		{"a group that looks the same", Who{Groups: []string{"dеv"}}, alice, "groups"},
		{"a scope", Who{Scopes: []string{"read"}}, alice, ""},
		{"a part of a scope", Who{Scopes: []string{"re"}}, alice, "scopes"},
		{"a client", Who{Clients: []string{"cli"}}, alice, ""},
		{"no client", Who{Clients: []string{"cli"}}, mcp.Caller{Subject: "alice"}, "clients"},
		{"all keys", Who{Users: []string{"alice"}, Groups: []string{"dev"}, Scopes: []string{"mcp"}, Clients: []string{"cli"},
			Issuers: []string{"https://a.example"}}, alice, ""},
		{"all keys but one", Who{Users: []string{"alice"}, Groups: []string{"dev"}, Scopes: []string{"write"}},
			alice, "scopes"},
		{"a claim", Who{Claims: map[string][]string{"department": {"it", "sales"}}}, alice, ""},
		{"another value of a claim", Who{Claims: map[string][]string{"department": {"it"}}}, alice, "claims[department]"},
		{"two claims", Who{Claims: map[string][]string{"department": {"sales"}, "vip": {"false"}}}, alice, "claims[vip]"},
		{"an element of a claim", Who{Claims: map[string][]string{"roles": {"writer"}}}, alice, ""},
		{"no element of a claim", Who{Claims: map[string][]string{"roles": {"admin"}}}, alice, "claims[roles]"},
		{"a number", Who{Claims: map[string][]string{"level": {"3"}}}, alice, ""},
		{"a truth", Who{Claims: map[string][]string{"vip": {"true"}}}, alice, ""},
		{"a number too large to compare", Who{Claims: map[string][]string{"big": {"123456789012345678901234567890"}}},
			alice, "claims[big]"},
		{"null", Who{Claims: map[string][]string{"none": {"null"}}}, alice, "claims[none]"},
		{"an object", Who{Claims: map[string][]string{"nested": {"b"}}}, alice, "claims[nested]"},
		{"a missing claim", Who{Claims: map[string][]string{"nothing": {"x"}}}, alice, "claims[nothing]"},
		{"a verified address", Who{Emails: []string{"alice@acme.example"}}, alice, ""},
		{"another address", Who{Emails: []string{"alice@acme.example.evil.example"}}, alice, "emails"},
		{"not verified", Who{Emails: []string{"a@b"}}, claimsOf(`{"email":"a@b","email_verified":false}`), "emails"},
		{"said to be verified as text", Who{Emails: []string{"a@b"}},
			claimsOf(`{"email":"a@b","email_verified":"true"}`), "emails"},
		{"nothing said", Who{Emails: []string{"a@b"}}, claimsOf(`{"email":"a@b"}`), "emails"},
		{"two @", Who{Emails: []string{"a@b"}}, claimsOf(`{"email":"a@b@c","email_verified":true}`), "emails"},
		{"as a claim", Who{Claims: map[string][]string{"email": {"a@b"}}}, claimsOf(`{"email":"a@b","email_verified":false}`),
			"claims[email]"},
		{"as a verified claim", Who{Claims: map[string][]string{"email": {"alice@acme.example"}}}, alice, ""},
		{"an address for a user", Who{Users: []string{"alice@acme.example"}}, alice, "users"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := newAudience(tt.who).lacks(newSubject(tt.caller)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestUnclearClaims: a token whose claims can be read in two ways gives nothing, and what
// rules would deny is denied.
func TestUnclearClaims(t *testing.T) {
	caller := user("alice", "dev")
	caller.Claims = mcp.Raw(`{"role":"user","role":"admin"}`)
	tests := []struct {
		name   string
		config Config
		want   Effect
	}{
		{"allow", Config{Rules: []Rule{{Name: "r", Allow: []string{"tools:*"}}}}, Deny},
		{"deny to others", Config{Default: DefaultAllow,
			Rules: []Rule{{Name: "r", Who: Who{Users: []string{"bob"}}, Deny: []string{"tools:*"}}}}, Deny},
		{"ask others", Config{Default: DefaultAllow, Rules: []Rule{{Name: "r", Who: Who{Users: []string{"bob"}},
			Ask: []string{"tools:*"}}}}, Deny},
		{"what no rule is about", Config{Default: DefaultAllow, Rules: []Rule{{Name: "r", Deny: []string{"prompts:*"}}}},
			Allow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := newForTest(t, tt.config).Decide(t.Context(), &caller, tool("a", "x"), nil); got.Effect != tt.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestWhoInWords(t *testing.T) {
	for _, tt := range []struct {
		who  Who
		want string
	}{
		{Who{}, "everybody"},
		{Who{Users: []string{"alice", "https://login.example.com bob"}}, "the user alice or https://login.example.com bob"},
		{Who{Groups: []string{"admins"}, Scopes: []string{"mcp:write"},
			Claims: map[string][]string{"site": {"a", "b"}, "level": {"3"}}},
			"in the group admins, with the scope mcp:write, with the claim level: 3, with the claim site: a or b"},
	} {
		if got := tt.who.String(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
