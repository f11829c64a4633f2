package auth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/auth"
)

func TestListener(t *testing.T) {
	const reach = "without authentication anyone who reaches "
	tests := []struct {
		name, mode, listen string
		want               string // part of the error; "" for none
	}{
		{"the zero config", "", "127.0.0.1:8080", ""},
		{"mode none", "none", "127.0.0.1:8080", ""},
		{"any of 127/8", "none", "127.8.9.10:0", ""},
		{"IPv6", "none", "[::1]:8080", ""},
		{"IPv4 written as IPv6", "none", "[::ffff:127.0.0.1]:8080", ""},
		{"localhost", "none", "LocalHost:8080", ""},

		{"another mode", "basic", "127.0.0.1:8080",
			`mode: "basic" does not exist: write oauth, keys, or none for a listener on a loopback address`},
		{"a mode in capitals", "NONE", "127.0.0.1:8080", `mode: "NONE" does not exist`},
		{"no host", "none", ":8080", reach + ":8080 (all interfaces) could use every upstream; listen on 127.0.0.1:8080"},
		{"all of IPv4", "none", "0.0.0.0:8080", reach + "0.0.0.0:8080"},
		{"all of IPv6", "none", "[::]:8080", reach + "[::]:8080"},
		{"all of IPv4 as IPv6", "none", "[::ffff:0.0.0.0]:8080", reach},
		{"a private address", "none", "10.0.0.1:8080", reach},
		{"a public address", "none", "203.0.113.7:80", reach},
		{"a link-local address", "none", "[fe80::1%eth0]:80", reach},
		{"a name", "none", "gateway.example:80", reach},
		{"a name that begins well", "none", "localhost.example:80", reach},
		{"an address that begins well", "none", "127.0.0.1.example:80", reach},
		{"an octal address", "none", "0177.0.0.1:80", reach},
		{"both at once", "basic", "0.0.0.0:80", `for a listener on a loopback address` + "\n" + reach},
		{"the way out", "none", "0.0.0.0:80", "or set auth.mode to oauth"},
		{"no port", "none", "127.0.0.1", `"127.0.0.1" is not host:port`},
		{"nothing", "none", "", `"" is not host:port`},
		{"IPv6 without brackets", "none", "::1:8080", "is not host:port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := auth.Config{Mode: tt.mode}
			err := errors.Join(cfg.Validate(), cfg.CheckListener(tt.listen))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case tt.want != "" && err == nil:
				t.Errorf("got no error, want one with %q", tt.want)
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("got %q, want it to contain %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "%!") {
				t.Errorf("the message is not well formatted: %q", err)
			}
		})
	}
}

func TestListenerOAuth(t *testing.T) {
	cfg := auth.Config{Mode: auth.ModeOAuth}
	for _, listen := range []string{"127.0.0.1:8080", "0.0.0.0:443", ":8080", "[::]:80", "gateway.example:80"} {
		if err := cfg.CheckListener(listen); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
	if cfg.CheckListener("0.0.0.0") == nil {
		t.Error("an address without a port is accepted")
	}
}

func TestPublicURL(t *testing.T) {
	tests := []struct {
		url string
		ok  bool
	}{
		{"https://mcp.example.com/mcp", true},
		{"https://mcp.example.com:8443", true},
		{"http://127.0.0.1:8080/mcp", true},
		{"http://localhost:8080/mcp", true},
		{"http://mcp.example.com/mcp", false},
		{"http://0.0.0.0:8080/mcp", false},
		{"https://u:p@mcp.example.com/mcp", false},
		{"https://mcp.example.com/mcp?a=b", false},
		{"https://mcp.example.com/mcp#a", false},
		{"mcp.example.com/mcp", false},
		{"", false},
	}
	for _, tt := range tests {
		if err := (auth.Config{Mode: auth.ModeOAuth}).CheckPublicURL(tt.url); (err == nil) != tt.ok {
			t.Errorf("%q: got %v", tt.url, err)
		}
		if err := (auth.Config{}).CheckPublicURL(tt.url); err != nil {
			t.Errorf("mode none, %q: %v", tt.url, err)
		}
	}
}

func TestValidate(t *testing.T) {
	const good = "https://login.example.com"
	issuer := func(change func(*auth.Issuer)) auth.Config {
		iss := auth.Issuer{URL: good}
		change(&iss)
		return auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{iss}}
	}
	secret := auth.Introspection{ClientID: "gateway", ClientSecret: "s3cret"}
	tests := []struct {
		name string
		cfg  auth.Config
		want []string // parts of the error; none for no error
	}{
		{"the least", issuer(func(*auth.Issuer) {}), nil},
		{"all of it", auth.Config{
			Mode: "oauth", RequiredScopes: []string{"mcp"}, ScopesSupported: []string{"api://a-b/mcp"},
			ImpliedScopes: map[string][]string{"mcp:all": {"mcp", "mcp:read"}}, Leeway: new(time.Second), MaxStale: time.Hour,
			Issuers: []auth.Issuer{
				{URL: good + "/other", Audiences: []string{"a", "b"}, Algorithms: []string{"ES256"}, RequireTyp: []string{"at+jwt"},
					Introspection: &secret},
				{URL: good, JWKSURL: "https://keys.example.com/jwks?a=b", AllowedClients: []string{"x"},
					MaxTokenLifetime: time.Hour},
				{URL: "http://127.0.0.1:9000/realm"},
			}}, nil},
		{"no issuer", auth.Config{Mode: "oauth"}, []string{"issuers: mode oauth needs at least one"}},
		{"issuers in mode none", auth.Config{Issuers: []auth.Issuer{{URL: good}}},
			[]string{"issuers: there is no use for them in mode none"}},
		{"everything is reported", auth.Config{Mode: "x", Leeway: new(time.Hour), MaxStale: -1,
			RequiredScopes: []string{"a b"}},
			[]string{"mode: ", "leeway: 1h0m0s is not between", "max_stale: ", `required_scopes: "a b" is not a scope`}},
		{"offline_access", auth.Config{Mode: "oauth", Issuers: []auth.Issuer{{URL: good}},
			ScopesSupported: []string{"offline_access"}},
			[]string{"scopes_supported: offline_access is between a client and the issuer"}},
		{"an implied scope", auth.Config{Mode: "oauth", Issuers: []auth.Issuer{{URL: good}},
			ImpliedScopes: map[string][]string{"a": {""}}},
			[]string{`implied_scopes.a: "" is not a scope`}},
		{"no url", issuer(func(i *auth.Issuer) { i.URL = "" }), []string{"issuers[0]: url: want an absolute URL"}},
		{"http", issuer(func(i *auth.Issuer) { i.URL = "http://login.example.com" }),
			[]string{"issuers[0]: url: http://login.example.com: want https"}},
		{"another scheme", issuer(func(i *auth.Issuer) { i.URL = "ftp://login.example.com" }), []string{"want https"}},
		{"credentials are not shown", issuer(func(i *auth.Issuer) { i.URL = "https://u:pw@login.example.com" }),
			[]string{"url: login.example.com: take out user"}},
		{"a query", issuer(func(i *auth.Issuer) { i.URL = good + "?" }), []string{"an issuer has no query"}},
		{"a fragment", issuer(func(i *auth.Issuer) { i.URL = good + "#" }), []string{"fragment"}},
		{"twice", auth.Config{Mode: "oauth", Issuers: []auth.Issuer{{URL: good}, {URL: good + "/"}}},
			[]string{"issuers[1]: url: issuers[0] is the same"}},
		{"keys in the clear", issuer(func(i *auth.Issuer) { i.JWKSURL = "http://keys.example.com" }),
			[]string{"issuers[0]: jwks_url: "}},
		{"an empty audience", issuer(func(i *auth.Issuer) { i.Audiences = []string{""} }),
			[]string{"issuers[0]: audiences: "}},
		{"no client at all", issuer(func(i *auth.Issuer) { i.AllowedClients = []string{} }),
			[]string{"issuers[0]: allowed_clients: is empty"}},
		{"scopes in mode none", auth.Config{RequiredScopes: []string{"a"}},
			[]string{"required_scopes: nobody asks for a token in mode none"}},
		{"an empty client", issuer(func(i *auth.Issuer) { i.AllowedClients = []string{""} }),
			[]string{"issuers[0]: allowed_clients: "}},
		{"a symmetric algorithm", issuer(func(i *auth.Issuer) { i.Algorithms = []string{"HS256"} }),
			[]string{`issuers[0]: algorithms: "HS256" is not one of RS256`}},
		{"no algorithm", issuer(func(i *auth.Issuer) { i.Algorithms = []string{"none"} }),
			[]string{`algorithms: "none" is not one of`}},
		{"the typ of something else", issuer(func(i *auth.Issuer) { i.RequireTyp = []string{"Application/Logout+JWT"} }),
			[]string{"issuers[0]: require_typ: "}},
		{"a lifetime", issuer(func(i *auth.Issuer) { i.MaxTokenLifetime = -1 }),
			[]string{"issuers[0]: max_token_lifetime: "}},
		{"a pointer", issuer(func(i *auth.Issuer) { i.Claims.Groups = "/a~2" }), []string{"issuers[0]: claims: groups: "}},
		{"introspection without a secret",
			issuer(func(i *auth.Issuer) { i.Introspection = &auth.Introspection{ClientID: "a"} }), []string{"introspection: client_id and client_secret"}},
		{"introspection in the clear", issuer(func(i *auth.Issuer) {
			i.Introspection = &auth.Introspection{URL: "http://a.example", ClientID: "a", ClientSecret: "b"}
		}), []string{"issuers[0]: introspection: url: "}},
		{"two that are asked about opaque tokens", auth.Config{Mode: "oauth",
			Issuers: []auth.Issuer{{URL: good, Introspection: &secret}, {URL: good + "/2", Introspection: &secret}}},
			[]string{"issuers[1]: introspection: issuers[0] has it already"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if (err == nil) != (len(tt.want) == 0) {
				t.Fatalf("got %v, want it to contain %q", err, tt.want)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want it to contain %q", err, part)
				}
			}
			if err != nil && (strings.Contains(err.Error(), "pw") || strings.Contains(err.Error(), "%!")) {
				t.Errorf("got %q", err)
			}
		})
	}
}

// The accepted audiences can be shown.
func TestAccepted(t *testing.T) {
	cfg := auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{
		{URL: "https://a.example"},
		{URL: "https://b.example", Audiences: []string{"3c5f", "https://mcp.example.com/mcp/"}},
	}}
	got := cfg.Accepted("https://mcp.example.com/mcp")
	want := []auth.Accepted{
		{Issuer: "https://a.example", Audiences: []string{"https://mcp.example.com/mcp"}},
		{Issuer: "https://b.example", Audiences: []string{"3c5f", "https://mcp.example.com/mcp/"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if cfg.Issuers[0].Audiences != nil {
		t.Error("the configuration was changed")
	}
	if (auth.Config{}).Accepted("x") != nil {
		t.Error("mode none accepts audiences")
	}
}
