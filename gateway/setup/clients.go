package setup

import (
	"encoding/json"
	"path"
	"strings"
)

// Snippet is the text that one client needs to find the gateway.
type Snippet struct {
	Client string `json:"client"`
	// Where is the place for Text: a file, or a shell.
	Where string `json:"where"`
	Text  string `json:"text"`
}

// Snippets returns the text for each client to find the gateway at a URL.
func Snippets(endpoint string) []Snippet {
	type object = map[string]any
	type remote struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	text := func(v any) string {
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			return ""
		}
		return b.String()
	}
	servers := func(key string, one any) string { return text(object{key: object{"gatehouse": one}}) }
	return []Snippet{
		{"Claude Code", "in a shell; --scope user is for all projects",
			"claude mcp add --transport http --scope user gatehouse " + endpoint + "\n"},
		{"Claude Desktop", "in claude_desktop_config.json (Settings, Developer, Edit Config); it needs Node.js",
			servers("mcpServers", remote{"npx", []string{"-y", "mcp-remote", endpoint}})},
		{"Cursor", "in ~/.cursor/mcp.json, or in .cursor/mcp.json of a project",
			servers("mcpServers", object{"url": endpoint})},
		{"VS Code", "in .vscode/mcp.json of a project, or by \"MCP: Open User Configuration\"",
			servers("servers", object{"type": "http", "url": endpoint})},
		{"Windsurf", "in ~/.codeium/windsurf/mcp_config.json", servers("mcpServers", object{"serverUrl": endpoint})},
		{"Gemini CLI", "in a shell", "gemini mcp add --transport http --scope user gatehouse " + endpoint + "\n"},
		{"Codex", "in a shell", "codex mcp add gatehouse --url " + endpoint + "\n"},
		{"LM Studio", "in ~/.lmstudio/mcp.json (Program, Install, Edit mcp.json)",
			servers("mcpServers", object{"url": endpoint})},
		{"Zed", "in settings.json", servers("context_servers", object{"url": endpoint})},
		{"opencode", "in opencode.json", servers("mcp", object{"type": "remote", "url": endpoint})},
	}
}

// Known is a file in which a client keeps its servers. One that is Shared is of a project: others may
// have written it.
type Known struct {
	Client, Path string
	Shared       bool
}

// KnownFiles returns the files in which clients keep their servers, on a system (as runtime.GOOS
// names it), for a user. config is the directory of settings there: os.UserConfigDir.
func KnownFiles(system, home, config string) []Known {
	at := func(dir string, parts ...string) string { return path.Join(append([]string{dir}, parts...)...) }
	user := at(config, "Code", "User")
	files := []Known{
		{"Claude Code, this project", ".mcp.json", true},
		{"Cursor, this project", ".cursor/mcp.json", true},
		{"VS Code, this project", ".vscode/mcp.json", true},
		{"Claude Desktop", at(config, "Claude", "claude_desktop_config.json"), false},
		{"Claude Code", at(home, ".claude.json"), false},
		{"Cursor", at(home, ".cursor", "mcp.json"), false},
		{"VS Code", at(user, "mcp.json"), false},
		{"Windsurf", at(home, ".codeium", "windsurf", "mcp_config.json"), false},
		{"Gemini CLI", at(home, ".gemini", "settings.json"), false},
		{"Codex", at(home, ".codex", "config.toml"), false},
		{"LM Studio", at(home, ".lmstudio", "mcp.json"), false},
	}
	if system != "windows" {
		files = append(files, Known{"Zed", at(home, ".config", "zed", "settings.json"), false},
			Known{"opencode", at(home, ".config", "opencode", "opencode.json"), false})
	}
	return files
}
