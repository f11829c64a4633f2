package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// parse returns the problems of a configuration in a file named "c.yaml".
func parse(t *testing.T, text string) (Config, []string) {
	t.Helper()
	cfg, _, err := Parse("c.yaml", []byte(text))
	if err == nil {
		return cfg, nil
	}
	return cfg, strings.Split(err.Error(), "\n")
}

func TestConfigProblems(t *testing.T) {
	const crm = "upstreams: [{name: crm, url: https://crm.example.com/mcp}]\n"
	tests := []struct {
		name, text string
		want       []string
	}{
		{"smallest", crm, nil},
		{"no upstreams", "listen: 127.0.0.1:0\n", []string{`c.yaml:1: upstreams: at least one is needed`}},
		{"empty", "", []string{`c.yaml:1: the file is empty: it needs at least upstreams`}},
		{"scalar root", "hello\n",
			[]string{`c.yaml:1: the file has to consist of keys and their values, such as listen: 127.0.0.1:8080`}},
		{"upstreams without a value", "upstreams:\n",
			[]string{`c.yaml:1: upstreams: has no value: give it one or take the key out`}},
		{"empty list", "listen: 127.0.0.1:0\nupstreams: []\n", []string{`c.yaml:2: upstreams: at least one is needed`}},
		{"misspelt section says nothing twice", "upstream: [{name: crm}]\n",
			[]string{`c.yaml:1: unknown key "upstream" (did you mean "upstreams"?)`}},
		{"duplicate upstream", "upstreams:\n- {name: crm, url: https://a.example}\n- {name: CRM, url: https://b.example}\n",
			[]string{`c.yaml:3: upstreams[1] (CRM): name: upstreams[0] is called "crm" already; names differ in more than case`}},
		{"separator in a name", "naming: {separator: \"-\"}\nupstreams:\n- name: a-b\n  url: https://a.example\n",
			[]string{`c.yaml:3: upstreams[0] (a-b): name: "a-b" contains the separator "-"`}},
		{"two upstreams without a prefix",
			"upstreams:\n- {name: a, url: https://a.example, prefix: \"\"}\n- name: b\n  url: https://b.example\n  prefix: \"\"\n",
			[]string{`c.yaml:5: upstreams[1] (b): prefix: "" is the prefix of "a" already`}},
		{"a prefix that another one has by default",
			"upstreams:\n- {name: a, url: https://a.example, prefix: b__}\n- name: b\n  url: https://b.example\n",
			[]string{`c.yaml:3: upstreams[1] (b): prefix: "b__" is the prefix of "a" already`}},
		{"a prefix with other characters", "upstreams:\n- {name: a, url: https://a.example, prefix: a.}\n",
			[]string{`c.yaml:2: upstreams[0] (a): prefix: "a.": want A-Z a-z 0-9 _ -`}},
		{"a prefix that is not in use",
			"upstreams:\n- {name: a, url: https://a.example, prefix: b__, enabled: false}\n- {name: b, url: https://b.example}\n", nil},
		{"token exchange without users",
			"upstreams:\n- name: a\n  url: https://a.example\n  auth:\n    type: token_exchange\n    token_url: https://i.example/token\n    issuer: https://i.example\n    client_id: gatehouse\n    client_secret: x\n",
			[]string{`c.yaml:7: upstreams[0] (a): auth.issuer: "https://i.example" is none of auth.issuers, so nobody comes with a token of it`}},
		{"accounts of the only user", "upstreams:\n- name: a\n  url: https://a.example\n  auth: {type: user_oauth}\n", nil},
		{"accounts of the only user elsewhere",
			"public_url: https://gw.example.com/mcp\nupstreams:\n- name: a\n  url: https://a.example\n  auth:\n    type: user_oauth\n    client_id: g\n",
			[]string{`c.yaml:5: upstreams[0] (a): auth.authorization_server: is needed with client_id: the gateway is registered there and nowhere else`,
				`c.yaml:6: upstreams[0] (a): auth.type: user_oauth in mode none needs a public_url on a loopback address: its user signs in on this machine`}},
		{"accounts without users",
			"auth: {mode: keys, keys: {file: keys.yaml}}\npolicy: {default: allow}\nupstreams:\n- name: a\n  url: https://a.example\n  auth:\n    type: user_oauth\n",
			[]string{`c.yaml:7: upstreams[0] (a): auth.type: user_oauth needs auth.mode oauth: who has an API key cannot sign in with a browser`}},
		{"the pages of accounts are there",
			"auth: {mode: oauth, issuers: [{url: https://login.example.com}]}\npolicy: {default: allow}\naccounts: {sign_in: {client_id: pages}}\npublic_url: https://gw.example.com/account\nviews:\n- {name: v, path: /account/v, show: [\"tools:a/*\"]}\nupstreams:\n- name: a\n  url: https://a.example\n  auth: {type: user_oauth}\n",
			[]string{`c.yaml:4: public_url: path "/account": the pages of users' accounts at servers (auth.type user_oauth) are there`,
				`c.yaml:6: views[0] (v): path: "/account/v": the pages of users' accounts at servers are there: choose another`}},
		{"nobody signs in at the pages",
			"auth: {mode: oauth, issuers: [{url: https://login.example.com}]}\npolicy: {default: allow}\npublic_url: https://gw.example.com/mcp\nupstreams:\n- name: a\n  url: http://a.example\n  allow_plaintext: true\n  auth: {type: user_oauth}\n",
			[]string{`c.yaml:1: accounts.sign_in.client_id: is missing: with auth.type user_oauth, users sign in at the gateway's own pages, too. Register these at the issuer, with the redirect URI /account/callback at the scheme and host of public_url`,
				`c.yaml:6: upstreams[0] (a): url: with auth.type user_oauth it is https, or on a loopback address: tokens of users go there`}},
		{"the pages' issuer", crm + "accounts: {sign_in: {client_id: a, issuer: https://other.example.com}}\n",
			[]string{`c.yaml:2: accounts.sign_in.issuer: there is none: users sign in at one of auth.issuers, with auth.mode oauth`}},
		{"the vault's key",
			crm + "sessions: {key: 0123456789abcdef0123456789abcdef}\nvault:\n  keys:\n  - {id: a, key: 0123456789abcdef0123456789abcdef}\n  - {id: a, key: short}\n",
			[]string{`c.yaml:5: vault.keys[0].key: is that of sessions.key or audit.key, too: give each its own, so that whoever reads one has not got the other`,
				`c.yaml:6: vault.keys[1].id: "a" is that of another key already`,
				`c.yaml:6: vault.keys[1].key: 5 bytes are too few: at least 32 are needed, such as those of openssl rand -base64 32`}},
		{"a fixed header twice",
			"upstreams:\n- name: a\n  url: https://a.example\n  headers: {authorization: x}\n  auth: {type: bearer, token: y}\n",
			[]string{`c.yaml:4: upstreams[0] (a): headers.authorization: auth sets it already; leave one of the two out`}},
		{"credentials of a command", "upstreams:\n- name: a\n  command: [x]\n  auth: {type: bearer, token: y}\n",
			[]string{`c.yaml:4: upstreams[0] (a): auth: is for a url; a command gets its credentials by env`}},
		{"problems of credentials",
			"upstreams:\n- name: a\n  url: https://a.example\n  auth:\n    type: client_credentials\n    token_url: http://i.example/token\n    scopes: [a b]\n    client_id: g\n    client_secret: x\n",
			[]string{`c.yaml:6: upstreams[0] (a): auth.token_url: http is only for loopback addresses; use https`,
				`c.yaml:7: upstreams[0] (a): auth.scopes[0]: "a b" is not one scope`}},
		{"several of one upstream",
			"upstreams:\n- name: crm\n  url: http://crm.example.com/mcp\n  timeout:\n    call: -1s\n    conect: 1s\n",
			[]string{
				`c.yaml:3: upstreams[0] (crm): url: http is only for loopback addresses; use https, or set allow_plaintext: true`,
				`c.yaml:5: upstreams[0] (crm): timeout.call: -1s is negative`,
				`c.yaml:6: upstreams[0] (crm): timeout: unknown key "conect" (did you mean "connect"?)`,
			}},
		{"all interfaces", "listen: :8080\n" + crm,
			[]string{`c.yaml:1: listen: without authentication anyone who reaches :8080 (all interfaces) could use every upstream; listen on 127.0.0.1:8080 or on another loopback address, or set auth.mode to oauth`}},
		{"oauth without issuers", "auth: {mode: oauth}\npolicy: {default: allow}\n" + crm,
			[]string{`c.yaml:1: auth.issuers: mode oauth needs at least one: whose tokens are to be accepted?`}},
		{"oauth without a policy",
			"public_url: https://a.example/mcp\nauth: {mode: oauth, issuers: [{url: https://login.example}]}\n" + crm,
			[]string{`c.yaml:1: policy: auth.mode oauth needs it; if everyone with a token may use everything, write policy: {default: allow}`}},
		{"oauth on plain http",
			"listen: :8080\nauth: {mode: oauth, issuers: [{url: https://login.example}]}\npolicy: {default: allow}\n" + crm,
			[]string{`c.yaml:1: public_url: "http://:8080/mcp" has to be https in mode oauth, or http on a loopback address: clients send tokens to it`}},
		{"policy and limits",
			crm + "policy:\n  rules:\n  - name: a\n    allow: [\"tool:crm/*\"]\n    who: {issuers: [https://login.example]}\nlimits:\n- name: b\n  what: [\"x:*\"]\n", []string{
				`c.yaml:5: policy.rules[0] (a): allow[0]: "tool:crm/*": unknown kind "tool": want one of tools, resources, prompts, skills or *`,
				`c.yaml:6: policy.rules[0] (a): who.issuers[0]: "https://login.example" is not one of auth.issuers, so this fits nobody`,
				`c.yaml:8: limits[0] (b): rate: is needed, such as 60/m`,
				`c.yaml:9: limits[0] (b): what[0]: "x:*": unknown kind "x": want one of tools, resources, prompts, skills or *`,
			}},
		{"listen without a port", "listen: localhost\n" + crm,
			[]string{`c.yaml:1: listen: "localhost" is not host:port, such as 127.0.0.1:8080`}},
		{"listen on a service", "listen: localhost:http\n" + crm,
			[]string{`c.yaml:1: listen: port "http": want a number from 0 to 65535`}},
		{"listen on too large a port", "listen: localhost:65536\n" + crm,
			[]string{`c.yaml:1: listen: port "65536": want a number from 0 to 65535`}},
		{"public_url without a host", "public_url: /mcp\n" + crm,
			[]string{`c.yaml:1: public_url: want an http or https URL, such as https://mcp.example.com/mcp`}},
		{"public_url with a query", "public_url: https://a.example/mcp?x=1\n" + crm,
			[]string{`c.yaml:1: public_url: user, query and fragment do not belong in it`}},
		{"public_url with a pattern", "public_url: https://a.example/{x}/*\n" + crm,
			[]string{`c.yaml:1: public_url: path "/%7Bx%7D/%2A": want segments of letters, digits and -._~ only`}},
		{"public_url with dots", "public_url: https://a.example/a/../mcp\n" + crm,
			[]string{`c.yaml:1: public_url: path "/a/../mcp": want segments of letters, digits and -._~ only`}},
		{"public_url with a slash at its end", "public_url: https://a.example/mcp/\n" + crm,
			[]string{`c.yaml:1: public_url: path "/mcp/": take the / at its end away`}},
		{"public_url without a path", "public_url: https://a.example\n" + crm, nil},
		{"sse_path", "http: {sse_path: sse}\n" + crm,
			[]string{`c.yaml:1: http.sse_path: "sse": want a path of segments of letters, digits and -._~, such as /sse, or off`}},
		{"sse_path with a slash at its end", "http: {sse_path: /sse/}\n" + crm,
			[]string{`c.yaml:1: http.sse_path: "/sse/": want a path of segments of letters, digits and -._~, such as /sse, or off`}},
		{"sse_path with dots", "http: {sse_path: /a/../sse}\n" + crm,
			[]string{`c.yaml:1: http.sse_path: "/a/../sse": want a path of segments of letters, digits and -._~, such as /sse, or off`}},
		{"sse_path at the endpoint", "http: {sse_path: /mcp}\n" + crm,
			[]string{`c.yaml:1: http.sse_path: "/mcp": the endpoint, public_url, is there already`}},
		{"sse_path whose messages are at the endpoint",
			"public_url: https://a.example/old/messages\nhttp: {sse_path: /old}\n" + crm,
			[]string{`c.yaml:2: http.sse_path: "/old": the endpoint, public_url, is there already`}},
		{"sse_path among the well-known", "http: {sse_path: /.well-known/sse}\n" + crm,
			[]string{`c.yaml:1: http.sse_path: "/.well-known/sse": want a path of segments of letters, digits and -._~, such as /sse, or off`}},
		{"sse_path elsewhere", "http: {sse_path: /old/events}\n" + crm, nil},
		{"sse_path without sessions", "http: {sse_path: /sse, clients: stateless}\n" + crm,
			[]string{`c.yaml:1: http.sse_path: "/sse": with clients: stateless there is no HTTP+SSE`}},
		{"clients", "http: {clients: new}\n" + crm, []string{`c.yaml:1: http.clients: "new" is neither all nor stateless`}},
		{"sse_path off", "http: {sse_path: off}\n" + crm, nil},
		{"views", crm +
			"views:\n- {name: sales, show: [\"tools:crm/*\"]}\n- {name: desk, path: /desk, who: {groups: [desk]}, show: [\"*:*\"]}\n", nil},
		{"bad views", crm +
			"views:\n- {show: [\"tools:crm/*\"]}\n- {name: Sales, path: sales/}\n- {name: a, who: {users: []}, show: [\"tool:*\"]}\n- {name: a, show: [\"*:*\"]}\n", []string{
			`c.yaml:3: views[0].name: "": want a-z, 0-9 and -, at most 40`,
			`c.yaml:4: views[1] (Sales): show: is needed: patterns such as tools:crm/*`,
			`c.yaml:4: views[1] (Sales): name: "Sales": want a-z, 0-9 and -, at most 40`,
			`c.yaml:4: views[1] (Sales): path: "sales/": want a path of segments of letters, digits and -._~, such as /mcp/sales`,
			`c.yaml:5: views[2] (a): who.users: is empty: put values in or take the key out`,
			`c.yaml:5: views[2] (a): show[0]: "tool:*": unknown kind "tool": want one of tools, resources, prompts, skills or *`,
			`c.yaml:6: views[3] (a): name: views[2] is called "a" already`,
		}},
		{"views at paths of others", "public_url: https://a.example/mcp\n" + crm +
			"views:\n- {name: a, path: /mcp, show: [\"*:*\"]}\n- {name: b, path: /sse/messages, show: [\"*:*\"]}\n- {name: c, path: /mcp/d, show: [\"*:*\"]}\n- {name: d, show: [\"*:*\"]}\n- {name: e, path: /, show: [\"*:*\"]}\nhttp: {sse_path: /x/sse}\n", []string{
			`c.yaml:4: views[0] (a): path: "/mcp": the endpoint is there already`,
			`c.yaml:5: views[1] (b): path: "/sse/messages": paths that end like this are for HTTP+SSE; choose another`,
			`c.yaml:7: views[3] (d): path: "/mcp/d": views[2] (c) is there already`,
			`c.yaml:8: views[4] (e): path: "/": want a path of segments of letters, digits and -._~, such as /mcp/sales`,
		}},
		{"a view whose HTTP+SSE is at the path of another one",
			crm + "http: {sse_path: /x/sse}\nviews:\n- {name: a, path: /x, show: [\"*:*\"]}\n", []string{
				`c.yaml:4: views[0] (a): path: "/x": its path for HTTP+SSE, /x/sse, is taken: choose another, or another http.sse_path`,
			}},
		{"shutdown_timeout", crm + "shutdown_timeout: -1s\n", []string{`c.yaml:2: shutdown_timeout: -1s is negative`}},
		{"log", crm + "telemetry:\n  log:\n    format: xml\n",
			[]string{`c.yaml:4: telemetry.log.format: "xml": want text or json`}},
		{"sessions", crm + "sessions: {store: disk, max: -1}\n", []string{
			`c.yaml:2: sessions.store: "disk" does not exist: want memory or redis`,
			`c.yaml:2: sessions.max: -1 is negative`,
		}},
		{"replicas without what they share",
			crm + "sessions:\n  store: redis\n  redis:\n    url: http://redis.example.com\n    prefix: \"{\"\n", []string{
				`c.yaml:1: replicas.listen: needed with sessions.store: redis, because replicas forward requests to each other there, such as 0.0.0.0:8082; where this gateway is the only one with this Redis, say alone: true`,
				`c.yaml:2: sessions.key: needed with store: redis, the same for all replicas: write a reference to a secret, such as ${env:GATEHOUSE_KEY}, of what openssl rand -base64 32 prints`,
				`c.yaml:5: sessions.redis.url: the scheme is none of redis, rediss, unix, and redis or rediss with +sentinel or +cluster`,
				`c.yaml:6: sessions.redis.prefix: "{": want no braces, patterns or spaces in it`,
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := parse(t, tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSSEPath(t *testing.T) {
	for _, tt := range []struct{ endpoint, given, want string }{
		{"https://a.example/mcp", "", "/sse"},
		{"https://a.example", "", "/sse"},
		{"https://a.example/", "", "/sse"},
		{"https://a.example/team/mcp", "", "/team/sse"},
		{"https://a.example/sse", "", "off"}, // the endpoint has that path
		{"https://a.example/sse/messages", "", "/sse/sse"},
		{"https://a.example/mcp", "/old", "/old"},
		{"https://a.example/mcp", "off", "off"},
	} {
		cfg := Config{PublicURL: tt.endpoint}
		cfg.HTTP.SSEPath = tt.given
		if got := cfg.WithDefaults().SSEPath(); got != tt.want {
			t.Errorf("%s %q: %s, want %s", tt.endpoint, tt.given, got, tt.want)
		}
	}
}

func TestConfigDoubts(t *testing.T) {
	const text = "upstreams: [{name: a, url: https://a.example}]\n%s\n"
	for line, want := range map[string]string{
		"public_url: http://localhost:1/mcp":                        "",
		"public_url: http://127.0.0.2/mcp":                          "",
		"naming: {instructions: " + strings.Repeat("x", 2000) + "}": "",
		"naming: {instructions: " + strings.Repeat("x", 2001) +
			"}": "c.yaml:2: naming.instructions: of all instructions, some clients read only 2 KB: with these 2001 bytes, they read nothing of what servers say (docs/clients.md)",
		"views: [{name: v, show: [\"tools:a/*\"], instructions: " + strings.Repeat("x", 2049) +
			"}]": "c.yaml:2: views[0] (v): instructions: Claude Code: at most 2048 bytes for instructions; beyond that, the rest is cut: these are 2049",
		"views: [{name: v, show: [\"tools:a/*\"], descriptions: {\"tools:a/b\": " + strings.Repeat("x", 2049) +
			"}}]": "c.yaml:2: views[0] (v): descriptions.tools:a/b: Claude Code: at most 2048 bytes for the description of a tool; beyond that, the rest is cut: these are 2049",
		"public_url: https://mcp.example.com/": "c.yaml:2: public_url: without authentication, everyone whom a proxy lets through from mcp.example.com can use every upstream",
	} {
		_, warnings, err := Parse("c.yaml", fmt.Appendf(nil, text, line))
		if got := (&Error{Problems: warnings}).Error(); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", line, got, err, want)
		}
	}
}

func TestLoadConfigUnreadable(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, MaxBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, file, want string }{
		{"missing", filepath.Join(dir, "nope.yaml"), "cannot be read: no such file or directory"},
		{"directory", dir, "cannot be read: not a regular file"},
		{"too large", large, "cannot be read: larger than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Load(tt.file)
			if want := tt.file + ": " + tt.want; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestRelativePaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	text := "upstreams:\n- {name: a, command: [./server, ./arg], dir: work}\n- {name: b, command: [npx], dir: /srv}\n- {name: c, command: [/bin/true]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, u := range cfg.Upstreams {
		got = append(got, append([]string{u.Dir}, u.Command...))
	}
	want := [][]string{{dir + "/work", dir + "/server", "./arg"}, {"/srv", "npx"}, {"", "/bin/true"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestExampleIsValid(t *testing.T) {
	for _, name := range []string{"INTROSPECTION_SECRET", "OAUTH_CLIENT_SECRET", "INSPECTOR_SECRET",
		"OAUTH_SIGNING_KEY", "OAUTH_SIGNING_KEY_BEFORE", "CRM_SECRET", "CHAT_SECRET", "WEATHER_KEY", "REDIS_PASSWORD",
		"SENTINEL_PASSWORD",
		"SIEM_TOKEN", "DLP_TOKEN", "GATEHOUSE_CONSOLE_SECRET"} {
		t.Setenv(name, "a secret of many characters")
	}
	t.Setenv("PROXY_PASSWORD", "a-secret")
	t.Setenv("GATEHOUSE_ADMIN_TOKEN", "456789abcdef0123456789abcdef0123")
	t.Setenv("GATEHOUSE_KEY", "0123456789abcdef0123456789abcdef")
	t.Setenv("GATEHOUSE_KEY_BEFORE", "fedcba9876543210fedcba9876543210")
	t.Setenv("AUDIT_KEY", "0123456789abcdefghijklmnopqrstuv")
	t.Setenv("SIEM_KEY", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	t.Setenv("OTEL_TOKEN", "abc")
	t.Setenv("VAULT_TOKEN", "hvs.abc")
	t.Setenv("GATEHOUSE_VAULT_KEY", "zyxwvutsrqponmlkjihgfedcba987654")
	t.Setenv("GATEHOUSE_ACCOUNTS_SECRET", "accounts-secret")
	t.Setenv("REDIS_URL", "rediss://redis.example.com:6379/0")
	t.Setenv("POD_IP", "10.1.2.3")
	t.Setenv("SEARCH_KEY", privateKey(t))
	_, warnings, err := Load(exampleFile)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].Message,
		"there is no such file yet: gatehouse key new makes it") {
		t.Errorf("problems:\n%v\nwarnings: %v", err, warnings)
	}
}

func privateKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func FuzzLoadConfig(f *testing.F) {
	for _, seed := range []string{
		"listen: 127.0.0.1:0\nupstreams: [{name: crm, url: https://a.example/mcp, prefix: ''}, {name: b, command: [x], env: {A: b}}]\nhttp: {allowed_hosts: [a]}\n",
		"upstream: [{name: a}]\n---\n{",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, warnings, err := Parse("c.yaml", []byte(text))
		if bad, ok := errors.AsType[*Error](err); ok {
			warnings = append(warnings, bad.Problems...)
		}
		for _, p := range warnings {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Errorf("%+v has no line, column or message", p)
			}
		}
	})
}

func TestInFlight(t *testing.T) {
	const none, MiB = int64(1<<63 - 1), int64(1 << 20)
	for _, tt := range []struct {
		name               string
		limit, given, want int64
	}{
		{"no memory limit", none, 0, 512 * MiB},
		{"a large one", 64 << 30, 0, 512 * MiB},
		{"a small one", 512 * MiB, 0, 64 * MiB},
		{"a tiny one", 16 * MiB, 0, 8 * MiB},
		{"given", 16 * MiB, 100 * MiB, 100 * MiB},
	} {
		c := Config{}
		c.HTTP.MaxInFlightBytes = tt.given
		if got := c.InFlight(tt.limit); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	c := Config{Upstreams: []upstream.Config{{Name: "a"}, {Name: "b", Limits: upstream.Limits{ResultBytes: 300 * MiB}},
		{Name: "c", Skills: "./s"}}}
	if got := c.memoryDoubts(none); len(got) != 1 {
		t.Errorf("doubts: %v, want one about b", got)
	}
}
