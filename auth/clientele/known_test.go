package clientele_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// allKnown lets in all known clients, in each of their ways.
func allKnown() clientele.Config {
	return clientele.Config{Registration: clientele.Registration{
		CIMD: clientele.CIMD{Allow: []string{"claude.ai", "chatgpt.com", "vscode.dev", "zed.dev", "opencode.ai"}},
		DCR: clientele.DCR{Enabled: true, Redirects: []string{
			"claude.ai", "chatgpt.com", "vscode.dev", "insiders.vscode.dev", "www.cursor.com", "cursor:", "antigravity.google",
			"global.consent.azure-apim.net", "callback.mistral.ai", "www.perplexity.ai", "chat.example.com",
		}},
	}}
}

// documents answers with documents of clients, by their URLs.
type documents map[string]string

// Do answers a request.
func (d documents) Do(r *http.Request) (*safehttp.Response, error) {
	body, known := d[r.URL.String()]
	if !known {
		return &safehttp.Response{Status: http.StatusNotFound}, nil
	}
	return &safehttp.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(body)}, nil
}

func known(t *testing.T, docs documents) *clientele.Registry {
	t.Helper()
	if err := allKnown().Validate(); err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewRandom("clients")
	if err != nil {
		t.Fatal(err)
	}
	r, err := clientele.New(allKnown(), clientele.Deps{Issuer: "https://gate.example.com", Key: key, Fetch: docs})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sent are the redirect URIs that clients send, other than those that they have registered, and what
// their documents and registrations have besides.
var sent = map[string]struct {
	redirects          []string
	document, register string
}{
	"claude.ai, Claude Desktop, mobile, Cowork": {
		document: `"grant_types":["authorization_code","refresh_token","urn:ietf:params:oauth:grant-type:jwt-bearer"],`,
		register: `"grant_types":["authorization_code","refresh_token"],"scope":"mcp","client_uri":"https://claude.ai",`,
	},
	"Claude Code": {redirects: []string{"http://localhost:53076/callback", "http://127.0.0.1:8085/callback"},
		register: `"application_type":"native",`},
	"ChatGPT": {document: `"token_endpoint_auth_methods_supported":["private_key_jwt","none"],"jwks_uri":"https://chatgpt.com/oauth/jwks.json",`},
	"Codex":   {redirects: []string{"http://127.0.0.1:37819/callback"}, register: `"application_type":"native",`},
	"VS Code": {redirects: []string{"http://127.0.0.1:59656/", "http://127.0.0.1:33418"},
		register: `"application_type":"native","response_types":["code"],`},
	"Cursor":          {redirects: []string{"http://localhost:8787/callback"}},
	"Gemini CLI":      {redirects: []string{"http://localhost:7777/oauth/callback"}},
	"Zed":             {redirects: []string{"http://127.0.0.1:27523/callback"}},
	"OpenCode":        {redirects: []string{"http://127.0.0.1:19876/callback"}},
	"Antigravity CLI": {},
	"Copilot Studio":  {},
	"Le Chat":         {register: `"token_endpoint_auth_method":"client_secret_post",`},
	"Perplexity":      {},
	"Windsurf":        {redirects: []string{"http://127.0.0.1:50000/callback"}},
	"JetBrains":       {redirects: []string{"http://localhost:63342/oauth"}},
	"n8n": {
		redirects: []string{"https://chat.example.com/rest/oauth2-credential/callback"},
		register:  `"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"client_uri":"https://n8n.io/",`,
	},
	"LibreChat": {
		redirects: []string{"https://chat.example.com/api/mcp/gatehouse/oauth/callback"},
		register:  `"response_types":["code"],"token_endpoint_auth_method":"client_secret_basic","scope":"mcp",`,
	},
}

// TestKnownClients: each known client gets in by its document and by registering itself, as it does
// these, and is sent back to where it waits, and to nowhere else.
func TestKnownClients(t *testing.T) {
	for _, s := range clients.SignIns {
		quirks, has := sent[s.Client]
		if !has {
			t.Errorf("%s: nothing is known of it here", s.Client)
			continue
		}
		registered := s.Redirects
		if len(registered) == 0 {
			registered = quirks.redirects
		}
		uris, err := json.Marshal(registered)
		if err != nil {
			t.Fatal(err)
		}
		about := fmt.Sprintf(`"client_name":%q,"redirect_uris":%s}`, s.Client, uris)
		method := `"token_endpoint_auth_method":"none",`
		if strings.Contains(quirks.document, "private_key_jwt") {
			method = `"token_endpoint_auth_method":"private_key_jwt",`
		}
		r := known(t, documents{s.Document: `{"client_id":"` + s.Document + `",` + method + quirks.document + about})
		check := func(how, id string) clientele.Client {
			t.Helper()
			c, err := r.Find(t.Context(), id)
			if err != nil {
				t.Errorf("%s %s: %v", s.Client, how, err)
			}
			for _, uri := range append(registered, quirks.redirects...) {
				if !c.Allows(uri) {
					t.Errorf("%s %s: %s is refused", s.Client, how, uri)
				}
			}
			for _, uri := range []string{"https://evil.example/callback", "http://127.0.0.1:1/other",
				"cursor://evil/oauth/callback"} {
				if c.Allows(uri) {
					t.Errorf("%s %s: %s is accepted", s.Client, how, uri)
				}
			}
			return c
		}
		if s.Document != "" {
			if c := check("by its document", s.Document); !c.Public() || c.Name != s.Client {
				t.Errorf("%s: %+v", s.Client, c)
			}
		}
		if !s.Registers {
			continue
		}
		if !strings.Contains(quirks.register, "token_endpoint_auth_method") {
			quirks.register += `"token_endpoint_auth_method":"none",`
		}
		req := httptest.NewRequest(http.MethodPost, "/oauth/register", strings.NewReader("{"+quirks.register+about))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		r.ServeRegister(w, req)
		var a struct {
			ID     string `json:"client_id"`
			Secret string `json:"client_secret"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusCreated {
			t.Errorf("%s: %d %s", s.Client, w.Code, w.Body)
			continue
		}
		confidential := strings.Contains(quirks.register, "client_secret")
		if c := check("registered", a.ID); c.Public() == confidential || c.Knows(a.Secret) != confidential {
			t.Errorf("%s: secret %t, %+v", s.Client, a.Secret != "", c)
		}
		if len(a.ID) > 700 {
			t.Errorf("%s: an id of %d bytes is long for a URL", s.Client, len(a.ID))
		}
	}
}
