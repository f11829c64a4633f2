package clientele

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const issuer = "https://gate.example.com"

// newRegistry makes a registry whose documents come from the web of the test.
func newRegistry(t *testing.T, cfg Config, web *web) *Registry {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewKey([]byte("0123456789abcdef0123456789abcdef"), "clients")
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{Issuer: issuer, Key: key}
	if web != nil {
		deps.Fetch = web
	}
	r, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refusal is the reason why a client is refused, "" if it is not.
func refusal(t *testing.T, r *Registry, id string) string {
	t.Helper()
	_, err := r.Find(t.Context(), id)
	if err == nil {
		return ""
	}
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		t.Fatalf("%.100s: %v is no refusal", id, err)
	}
	return refused.Text
}

func TestFixed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "claude.json")
	if err := os.WriteFile(file, []byte(`{"client_id":"https://claude.ai/oauth/meta","client_name":"Claude","redirect_uris":["https://claude.ai/cb"],
		"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token","urn:ietf:params:oauth:grant-type:jwt-bearer"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRegistry(t, Config{Clients: []Fixed{
		{ID: "chat", Name: "Intranet chat", RedirectURIs: []string{"https://chat.example.com/cb"},
			Secret: "0123456789abcdef"},
		{ID: "cli", RedirectURIs: []string{"http://localhost/cb"}},
		{ID: "https://claude.ai/oauth/meta", Document: file},
	}}, &web{})
	for _, tt := range []struct {
		id, name, method, redirect string
	}{
		{"chat", "Intranet chat", MethodBasic, "https://chat.example.com/cb"},
		{"cli", "cli", MethodNone, "http://localhost:5000/cb"},
		{"https://claude.ai/oauth/meta", "Claude", MethodNone, "https://claude.ai/cb"},
	} {
		c, err := r.Find(t.Context(), tt.id)
		if err != nil || c.ID != tt.id || c.Name != tt.name || c.Method != tt.method || c.Kind != KindFixed ||
			!c.Allows(tt.redirect) || c.Allows("https://evil.example/cb") {
			t.Errorf("%s: %+v, %v", tt.id, c, err)
		}
		if c.Knows("0123456789abcdef") != (tt.id == "chat") || c.Knows("") || c.Knows("0123456789abcdeg") ||
			c.Public() == (tt.id == "chat") {
			t.Errorf("%s: the secret is not compared", tt.id)
		}
	}
	for _, id := range []string{"", "other", "CHAT", "https://claude.ai/oauth/other", "https://claude.ai/oauth/meta/",
		"http://claude.ai/oauth/meta", registeredPrefix} {
		if refusal(t, r, id) == "" {
			t.Errorf("%q is a client", id)
		}
	}
	if !r.Documents() || r.Registers() || !slices.Contains(r.Methods(), MethodNone) {
		t.Error("the metadata are wrong")
	}
	if _, err := New(Config{Clients: []Fixed{{ID: "https://claude.ai/oauth/other", Document: file}}},
		Deps{}); err == nil || !strings.Contains(err.Error(), "is about the client_id") {
		t.Errorf("the copy of another document: %v", err)
	}
	if _, err := New(Config{Clients: []Fixed{{ID: "https://claude.ai/oauth/other", Document: file + "x"}}},
		Deps{}); err == nil {
		t.Error("there is no file")
	}
}

// TestNobodyByDefault: without configuration there is no client, and nothing is fetched.
func TestNobodyByDefault(t *testing.T) {
	w := &web{}
	r := newRegistry(t, Config{}, w)
	for _, id := range []string{"", "x", "https://claude.ai/oauth/meta", registeredPrefix + "x"} {
		if refusal(t, r, id) == "" {
			t.Errorf("%q is a client", id)
		}
	}
	if r.Documents() || r.Registers() || !(Config{}).IsZero() || w.count("claude.ai") > 0 {
		t.Error("somebody can be a client")
	}
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"nothing", Config{}, nil},
		{"all", Config{
			Clients: []Fixed{{ID: "a", RedirectURIs: []string{"https://a.example/cb"}},
				{ID: "https://a.example/c.json", Document: "a.json"}},
			Registration: Registration{CIMD: CIMD{Allow: []string{"*"}, Deny: []string{"*.evil.example", "evil.example"}},
				DCR: DCR{Enabled: true, Redirects: []string{"cursor:", "claude.ai", "*"}}},
		}, nil},
		{"no id", Config{Clients: []Fixed{{RedirectURIs: []string{"https://a.example/cb"}}}},
			[]string{"clients[0]: id: is needed"}},
		{"a strange id", Config{Clients: []Fixed{{ID: "a b", RedirectURIs: []string{"https://a.example/cb"}}}},
			[]string{`id: "a b"`}},
		{"an id of a registration", Config{Clients: []Fixed{{ID: "dcr_x", RedirectURIs: []string{"https://a.example/cb"}}}},
			[]string{"not dcr_ in front"}},
		{"no redirects", Config{Clients: []Fixed{{ID: "a"}}}, []string{"redirect_uris: are needed"}},
		{"a bad redirect", Config{Clients: []Fixed{{ID: "a", RedirectURIs: []string{"http://a.example/cb"}}}},
			[]string{`"http://a.example/cb" is http`}},
		{"a short secret", Config{Clients: []Fixed{{ID: "a", RedirectURIs: []string{"https://a.example/cb"},
			Secret: "short"}}}, []string{"secret: is shorter"}},
		{"a URL without a document", Config{Clients: []Fixed{{ID: "https://a.example/c",
			RedirectURIs: []string{"https://a.example/cb"}}}}, []string{"document: is needed"}},
		{"a URL on http", Config{Clients: []Fixed{{ID: "http://a.example/c", Document: "x"}}},
			[]string{"is http, which is only"}},
		{"a document with a secret", Config{Clients: []Fixed{{ID: "https://a.example/c", Document: "x",
			Secret: "0123456789abcdef"}}}, []string{"secret: a client with a document has none"}},
		{"a document of a word", Config{Clients: []Fixed{{ID: "a", Document: "x"}}}, []string{"document: is only for"}},
		{"twice", Config{Clients: []Fixed{{ID: "a", RedirectURIs: []string{"https://a.example/cb"}},
			{ID: "a", RedirectURIs: []string{"https://a.example/cb"}}}}, []string{"clients[1]: id: clients[0] is the same"}},
		{"a strange name", Config{Clients: []Fixed{{ID: "a", Name: "a\u202eb",
			RedirectURIs: []string{"https://a.example/cb"}}}}, []string{"name: "}},
		{"patterns", Config{Registration: Registration{CIMD: CIMD{Allow: []string{"https://a.example", "A.example", "a.*", "",
			"xn--pp-7ed.example"}, Deny: []string{"**"}}}},
			[]string{`"https://a.example"`, `"A.example"`, `"a.*"`, `""`, `"xn--pp-7ed.example"`, `cimd.deny: "**"`}},
		{"deny alone", Config{Registration: Registration{CIMD: CIMD{Deny: []string{"a.example"}}}},
			[]string{"nothing is allowed that could be denied"}},
		{"schemes", Config{Registration: Registration{DCR: DCR{Enabled: true,
			Redirects: []string{"javascript:", "https:", "Cursor:", ":", "cursor://"}}}},
			[]string{`"javascript:"`, `"https:"`, `"Cursor:"`, `":"`, `"cursor://"`}},
		{"off", Config{Registration: Registration{DCR: DCR{Redirects: []string{"claude.ai"}}}}, []string{"dcr.enabled"}},
		{"a long life", Config{Registration: Registration{DCR: DCR{Enabled: true, Lifetime: maxLifetime + 1}}},
			[]string{"dcr.lifetime"}},
	} {
		err := tt.cfg.Validate()
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", tt.name, err, want)
			}
		}
	}
}

// TestClientNames: what clients call themselves can be shown.
func TestClientNames(t *testing.T) {
	for name, want := range map[string]string{
		"Claude":                          "Claude",
		"  VS\tCode \n(Copilot)  ":        "VS Code (Copilot)",
		"Claude\u202egnp.exe":             "Claude\uFFFDgnp.exe",
		"a\x1b[2Jb":                       "a\uFFFD[2Jb",
		"a\u200bb":                        "a\uFFFDb",
		"\xff":                            "\uFFFD",
		"漢字 é":                            "漢字 é",
		"e\u0301\u0301\u0301\u0301\u0301": "e\u0301\u0301",
		"":                                "",
		" \n ":                            "",
		strings.Repeat("x", 70):           strings.Repeat("x", 63) + "…",
		strings.Repeat("x", 64):           strings.Repeat("x", 64),
	} {
		if got := cleanName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
		if again := cleanName(cleanName(name)); again != cleanName(name) {
			t.Errorf("%q: cleaned again it is %q", name, again)
		}
	}
}

// TestAllowed: operators read what to change for a client.
func TestAllowed(t *testing.T) {
	cursor := []string{"http://localhost:8787/callback", "https://www.cursor.com/cb", "https://www.cursor.com/other",
		"cursor://x/cb"}
	cfg := Config{
		Clients: []Fixed{{ID: "cursor", RedirectURIs: []string{"http://localhost/callback"}},
			{ID: "https://zed.dev/c.json", Document: "zed.json"}},
		Registration: Registration{CIMD: CIMD{Allow: []string{"*.ai"}, Deny: []string{"evil.ai"}},
			DCR: DCR{Enabled: true, Redirects: []string{"www.cursor.com", "cursor:"}}},
	}
	say := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for name, tt := range map[string]struct{ got, want string }{
		"allowed": {say(cfg.DocumentAllowed("https://claude.ai/x")), ""},
		"a copy":  {say(cfg.DocumentAllowed("https://zed.dev/c.json")), ""},
		"denied": {say(cfg.DocumentAllowed("https://evil.ai/x")),
			"take evil.ai out of auth.server.registration.cimd.deny"},
		"not allowed": {say(cfg.DocumentAllowed("https://zed.dev/d.json")),
			"add zed.dev to auth.server.registration.cimd.allow"},
		"registers": {say(cfg.RegistrationAllowed(cursor)), ""},
		"all unknown": {say(Config{}.RegistrationAllowed(cursor)),
			"set auth.server.registration.dcr.enabled and add www.cursor.com, \"cursor:\" to auth.server.registration.dcr.redirects"},
		"only loopback": {say(Config{}.RegistrationAllowed(cursor[:1])), "set auth.server.registration.dcr.enabled"},
		"made":          {cfg.Made(cursor), "cursor"},
		"not made":      {cfg.Made([]string{"https://a.example/cb"}), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", name, tt.got, tt.want)
		}
	}
}
