package clients

import "strings"

// SignIn describes how a known client becomes a client of an authorization server.
type SignIn struct {
	Client string
	// Document is the URL of the document about it, which is then its id (CIMD); "" for none.
	Document string
	// Registers says that it registers itself (DCR), Typed that its users can type in an id.
	Registers, Typed bool
	// Redirects are its redirect URIs, as its document or its registration has them. On a loopback
	// address it uses any port. Without any, it has one at the host where it is installed, with this Path,
	// or they are not known.
	Redirects []string
	Path      string
	// Public says that it uses its document only if the server's metadata have the method none.
	Public bool
	// PerConnection says that it has another document, at the same host, for each connection with a
	// server that does not name itself in its answers (RFC 9207).
	PerConnection bool
}

// SignIns are those of the known clients. docs/clients.md has the same table.
var SignIns = []SignIn{
	{Client: "claude.ai, Claude Desktop, mobile, Cowork", Document: "https://claude.ai/oauth/mcp-oauth-client-metadata",
		Registers: true, Typed: true, Public: true,
		Redirects: []string{"https://claude.ai/api/mcp/auth_callback"}},
	{Client: "Claude Code", Document: "https://claude.ai/oauth/claude-code-client-metadata", Registers: true, Typed: true,
		Redirects: []string{"http://localhost/callback", "http://127.0.0.1/callback"}},
	{Client: "ChatGPT", Document: "https://chatgpt.com/oauth/client.json", Registers: true, Typed: true,
		PerConnection: true,
		Redirects:     []string{"https://chatgpt.com/connector_platform_oauth_redirect"}},
	{Client: "Codex", Document: "https://chatgpt.com/oauth/codex/client.json", Registers: true,
		Redirects: []string{"http://127.0.0.1/callback", "http://localhost/callback"}},
	{Client: "VS Code", Document: "https://vscode.dev/oauth/client-metadata.json", Registers: true, Typed: true,
		Redirects: []string{"http://127.0.0.1/", "http://127.0.0.1:33418/", "https://vscode.dev/redirect",
			"https://insiders.vscode.dev/redirect"}},
	{Client: "Cursor", Registers: true, Typed: true,
		Redirects: []string{"http://localhost:8787/callback", "https://www.cursor.com/agents/mcp/oauth/callback",
			"cursor://anysphere.cursor-mcp/oauth/callback"}},
	{Client: "Gemini CLI", Registers: true, Typed: true, Redirects: []string{"http://localhost/oauth/callback"}},
	{Client: "Antigravity CLI", Registers: true, Typed: true,
		Redirects: []string{"https://antigravity.google/oauth-callback"}},
	{Client: "Zed", Document: "https://zed.dev/oauth/client-metadata.json", Registers: true,
		Redirects: []string{"http://127.0.0.1/callback"}},
	{Client: "OpenCode", Document: "https://opencode.ai/oauth/opencode/client.json", Registers: true,
		Redirects: []string{"http://127.0.0.1/callback", "http://localhost/callback"}},
	{Client: "Copilot Studio", Registers: true, Typed: true,
		Redirects: []string{"https://global.consent.azure-apim.net/redirect/your-connector"}},
	{Client: "Le Chat", Registers: true, Typed: true,
		Redirects: []string{"https://callback.mistral.ai/v1/integrations_auth/oauth2_callback"}},
	{Client: "Perplexity", Registers: true, Typed: true,
		Redirects: []string{"https://www.perplexity.ai/rest/connections/oauth_callback"}},
	{Client: "Windsurf", Registers: true, Typed: true},
	{Client: "JetBrains", Registers: true, Typed: true},
	{Client: "n8n", Registers: true, Typed: true, Path: "/rest/oauth2-credential/callback"},
	{Client: "LibreChat", Registers: true, Typed: true, Path: "/api/mcp/gatehouse/oauth/callback"},
}

// Server describes how clients get in at an authorization server.
type Server struct {
	// Document returns why a client with the URL of its document as its id does not get in, Register
	// why one with these redirect URIs, none if they are unknown, cannot register itself. Where the
	// server is ours, the errors say what to change.
	Document func(url string) error
	Register func(redirects []string) error
	// Known returns the id of a client that was made for redirect URIs, "" for none.
	Known func(redirects []string) string
	// Public says that its metadata have the method none, NamesItself that they have its name in
	// answers (RFC 9207).
	Public, NamesItself bool
	// Ours says that it is the gateway's own.
	Ours bool
}

// Entry describes how a client gets in at a server.
type Entry struct {
	Client string `json:"client"`
	// In says that it gets in, How says how.
	In  bool   `json:"in"`
	How string `json:"how"`
	// Change is what to do for it; "" for nothing.
	Change string `json:"change,omitempty"`
}

// String returns a line for people.
func (w Entry) String() string {
	if w.Change == "" {
		return w.Client + ": " + w.How
	}
	return w.Client + ": " + w.How + ": " + w.Change
}

const (
	// anywhere stands for a redirect URI that is not known.
	anywhere  = "https://anywhere.example/callback"
	elsewhere = "auth.server.registration.dcr.redirects needs the host that it is sent back to, unless that is the user's own machine"
)

// Entries returns the entry of each known client at a server.
func Entries(server Server) (entries []Entry) {
	for _, s := range SignIns {
		entry := s.at(server)
		entry.Client = s.Client
		entries = append(entries, entry)
	}
	return entries
}

// at returns the client's first entry that works, beginning with those that need nothing of its user.
func (s SignIn) at(server Server) Entry {
	var changes []string
	if s.Document != "" {
		err := server.Document(s.Document)
		if err == nil && (server.Public || !s.Public) {
			return Entry{In: true, How: "by its document, " + s.document(server)}
		}
		if err != nil {
			changes = append(changes, err.Error())
		}
	}
	if s.Registers {
		err := server.Register(s.Redirects)
		switch {
		case err == nil && len(s.Redirects) == 0 && server.Ours && server.Register([]string{anywhere}) != nil:
			return Entry{How: "registers itself", Change: elsewhere}
		case err == nil:
			return Entry{In: true, How: "registers itself"}
		}
		changes = append(changes, err.Error())
	}
	if id := server.Known(s.Redirects); id != "" && s.Typed {
		return Entry{In: true, How: "its users type in the id " + id}
	}
	redirects := "the redirect URI that it shows"
	switch {
	case len(s.Redirects) > 0:
		redirects = strings.Join(s.Redirects, " and ")
	case s.Path != "":
		redirects = "https://{its host}" + s.Path
	}
	switch {
	case server.Ours && s.Typed:
		changes = append(changes, "name it in auth.server.clients, with "+redirects+", and have its users type in the id")
	case s.Typed:
		return Entry{How: "its users type in an id", Change: "make a client at the issuer, with " + redirects}
	case !server.Ours:
		changes = []string{"the issuer would have to let it register, or auth.server to be on"}
	}
	return Entry{How: "not at all", Change: strings.Join(changes, "; or ")}
}

// document returns the id that the client has there.
func (s SignIn) document(server Server) string {
	if s.PerConnection && !server.NamesItself {
		return "another one for each connection"
	}
	return s.Document
}
