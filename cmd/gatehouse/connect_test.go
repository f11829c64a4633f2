package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/setup"
)

// user is a person with a home directory and clients in it.
type user struct {
	t    *testing.T
	home string
}

func newUser(t *testing.T) user {
	u := user{t, t.TempDir()}
	t.Setenv("HOME", u.home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(u.home, ".config"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(u.home, "state"))
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	t.Setenv("CODEX_HOME", "")
	t.Setenv("PATH", filepath.Join(u.home, "bin"))
	t.Chdir(u.home)
	return u
}

// write writes a file that only its owner reads.
func (u user) write(name, text string) {
	u.t.Helper()
	file := filepath.Join(u.home, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// read returns what is in a file, "" if it is not there.
func (u user) read(name string) string {
	text, err := os.ReadFile(filepath.Join(u.home, name))
	if err != nil && !os.IsNotExist(err) {
		u.t.Fatal(err)
	}
	return string(text)
}

// connect runs the command. It fails the test unless the exit code is as expected, and all parts are in the output.
func (u user) connect(code int, answers string, args []string, parts ...string) (output string) {
	u.t.Helper()
	var out bytes.Buffer
	if got := run(append([]string{"connect"}, args...), strings.NewReader(answers), &out, &out); got != code {
		u.t.Errorf("%v: exit code %d, want %d", args, got, code)
	}
	for _, part := range parts {
		if !strings.Contains(out.String(), part) {
			u.t.Errorf("%v: no %q in\n%s", args, part, out.String())
		}
	}
	return out.String()
}

const (
	cursorFile = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"url\": \"https://a.example/mcp\"},\n  },\n}\n"
	codexFile  = "model = \"o\"\n\n[mcp_servers.docs]\ncommand = \"x\"\n"
)

// TestConnect: each client is asked about, keeps what it has, and gets it back byte for byte.
func TestConnect(t *testing.T) {
	u := newUser(t)
	u.connect(exitProblem, "", nil, "no client was found here")
	u.write("dotfiles/mcp.json", cursorFile)
	u.write(".cursor/x", "")
	if err := os.Symlink("../dotfiles/mcp.json", filepath.Join(u.home, ".cursor", "mcp.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(u.home, "dotfiles", "mcp.json"), 0o640); err != nil {
		t.Fatal(err)
	}
	u.write(".codex/config.toml", codexFile)
	u.write(".config/goose/config.yaml", "GOOSE_MODEL: m\n")
	u.write(".config/zed/settings.json", "{}")
	u.connect(0, "y\n\nn\n", nil,
		"Cursor (~/.cursor/mcp.json):\n@@ ", "+    \"gatehouse\": {\n+      \"url\": \"http://127.0.0.1:8080/mcp\"\n",
		"  write this? [Y]es, [n]o:   written. Cursor: Settings, MCP has it\n", "+[mcp_servers.gatehouse]\n")
	if got := u.read("dotfiles/mcp.json"); !strings.Contains(got, "// mine") || !strings.Contains(got, `"gatehouse": {`) {
		t.Error(got)
	}
	info, err := os.Lstat(filepath.Join(u.home, ".cursor", "mcp.json"))
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if info, err = os.Stat("dotfiles/mcp.json"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info, err)
	}
	if got := u.read(".config/zed/settings.json") + u.read(".config/goose/config.yaml"); got != "{}GOOSE_MODEL: m\n" {
		t.Errorf("not agreed: %s", got)
	}
	u.connect(0, "", []string{"--yes"}, "has the gateway already", "Goose (")
	if got := u.read(".config/goose/config.yaml"); !strings.Contains(got, "uri: \"http://127.0.0.1:8080/mcp\"\n") {
		t.Error(got)
	}
	u.connect(0, "", []string{"https://b.example/mcp", "--yes", "--client", "cursor", "--client", "windsurf"},
		"-      \"url\": \"http://127.0.0.1:8080/mcp\"\n+      \"url\": \"https://b.example/mcp\"\n")
	if got := u.read(".codeium/windsurf/mcp_config.json"); !strings.Contains(got, `"serverUrl": "https://b.example/mcp"`) {
		t.Error(got)
	}
	u.connect(0, "n\nn\nn\nn\nn\n", []string{"--undo"}, "-    \"gatehouse\": {\n")
	u.connect(0, "", []string{"--undo", "--yes"}, "mcp.json) is as it was before\n")
	for name, want := range map[string]string{"dotfiles/mcp.json": cursorFile, ".codex/config.toml": codexFile,
		".config/goose/config.yaml": "GOOSE_MODEL: m\n", ".config/zed/settings.json": "{}",
		".codeium/windsurf/mcp_config.json": ""} {
		if got := u.read(name); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	if left, err := os.ReadDir("state/gatehouse/connect"); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	if got := u.connect(0, "", []string{"--undo"}); got != "nothing of this command is left\n" {
		t.Error(got)
	}
}

// TestConnectUndoLater: what the user has changed since stays, and so does what another name has written.
func TestConnectUndoLater(t *testing.T) {
	u := newUser(t)
	u.write(".cursor/mcp.json", cursorFile)
	u.write(".config/Claude/claude_desktop_config.json", "")
	u.connect(0, "", []string{"--yes"})
	if got := u.read(".config/Claude/claude_desktop_config.json"); !strings.Contains(got, "\"--stdio\",\n") {
		t.Error(got)
	}
	u.write(".cursor/mcp.json", strings.Replace(u.read(".cursor/mcp.json"), "// mine", "// changed", 1))
	u.connect(0, "", []string{"https://work.example/mcp", "--name", "work", "--yes", "--client", "cursor"})
	u.connect(0, "", []string{"https://c.example/mcp", "--yes", "--client", "cursor"},
		`+      "url": "https://c.example/mcp"`)
	u.write(".cursor/mcp.json", u.read(".cursor/mcp.json")+"\n")
	u.connect(0, "", []string{"--undo", "--yes"}, "has changed since: the entry alone is taken out")
	if got := u.read(".cursor/mcp.json"); !strings.Contains(got, "// changed") || strings.Contains(got, "\"gatehouse\"") ||
		!strings.Contains(got, "\"work\"") || !strings.Contains(got, "a.example") {
		t.Error(got)
	}
	u.connect(0, "", []string{"--undo", "--yes", "--name", "work"})
	if got := u.read(".cursor/mcp.json"); got != strings.Replace(cursorFile, "// mine", "// changed", 1)+"\n" {
		t.Error(got)
	}
	if got := u.read(".config/Claude/claude_desktop_config.json"); got != "" {
		t.Error(got)
	}
}

// TestConnectLeavesWhatIsNotOurs: a server of the same name that the user has put in its place since is neither
// replaced nor taken out without a question.
func TestConnectLeavesWhatIsNotOurs(t *testing.T) {
	u := newUser(t)
	u.write(".cursor/mcp.json", cursorFile)
	u.connect(0, "", []string{"--yes"})
	own := strings.Replace(u.read(".cursor/mcp.json"), "http://127.0.0.1:8080/mcp", "https://own.example/mcp", 1)
	u.write(".cursor/mcp.json", own)
	u.connect(exitProblem, "", []string{"--yes"}, "is another server there")
	u.connect(exitProblem, "", []string{"--undo", "--yes"}, "is another server there now, which is left alone")
	if got := u.read(".cursor/mcp.json"); got != own {
		t.Error(got)
	}
	if err := os.Remove(".cursor/mcp.json"); err != nil {
		t.Fatal(err)
	}
	u.connect(0, "", []string{"--undo", "--yes"}, "is as it was before")
	if got := u.read(".cursor/mcp.json"); got != cursorFile {
		t.Error(got)
	}
}

// TestWriteContents: a file that another program has changed is neither written nor removed.
func TestWriteContents(t *testing.T) {
	u := newUser(t)
	u.write("a", "theirs")
	for _, goal := range []contents{{}, {"ours", true}} {
		if err := writeContents("a", contents{"before", true}, goal); err == nil || u.read("a") != "theirs" {
			t.Errorf("%v, %q", err, u.read("a"))
		}
	}
}

// TestConnectRefuses: broken files and entries of others stay as they are; secrets are neither shown nor written.
func TestConnectRefuses(t *testing.T) {
	u := newUser(t)
	const other = `{"mcpServers": {"gatehouse": {"url": "https://x.example/mcp",
  "headers": {"X-Api-Key": "secret-value"}}}}`
	u.write(".cursor/mcp.json", other)
	u.write(".kiro/settings/mcp.json", `{"mcpServers": {"a": "secret-value`)
	u.write(".codex/config.toml", codexFile)
	out := u.connect(exitProblem, "", []string{"--yes"},
		"is not changed: gatehouse is another server there: leave --yes out",
		"Kiro (~/.kiro/settings/mcp.json) is not changed: line 1: this is not JSON",
		"gatehouse: 2 files were not changed")
	if u.read(".cursor/mcp.json") != other || !strings.Contains(u.read(".codex/config.toml"), "gatehouse") {
		t.Error(out)
	}
	out += u.connect(0, "\n", []string{"--client", "cursor"}, "is another server there: replace it? [y]es, [N]o: ")
	if got := u.read(".cursor/mcp.json"); got != other {
		t.Error(got)
	}
	out += u.connect(0, "y\n", []string{"--client", "cursor"}, "<secret>", "written")
	if got := u.read(".cursor/mcp.json"); strings.Contains(got, "secret-value") {
		t.Error(got)
	}
	u.write(".cursor/mcp.json", u.read(".cursor/mcp.json")+"\n")
	out += u.connect(0, "", []string{"--client", "cursor", "--undo", "--yes"}, "the entry alone is taken out")
	if got := u.read(".cursor/mcp.json"); !strings.Contains(got, "\"X-Api-Key\":\"secret-value\"") &&
		!strings.Contains(got, "\"X-Api-Key\": \"secret-value\"") {
		t.Errorf("the entry of before is not back: %s", got)
	}
	out += u.connect(exitProblem, "", []string{"https://u:secret-value@a.example/mcp"}, "the URL has a secret")
	out += u.connect(exitProblem, "", []string{"a.example"}, "the URL of the gateway is needed")
	if strings.Contains(out, "secret-value") {
		t.Error(out)
	}
	u.connect(exitUsage, "", []string{"--client", "emacs"}, `--client "emacs": no such client`)
	u.connect(exitUsage, "", []string{"--client", "windsurf", "--project"}, "Windsurf has no file for a project")
	u.connect(exitUsage, "", []string{"--client-id", "x"}, "--client-id: write connect --stdio URL")
	u.connect(exitUsage, "", []string{"--stdio", "--undo", "http://127.0.0.1:1/mcp"}, "[stdio undo]")
	u.connect(exitUsage, "", []string{"--name", "a b"}, "want letters, digits")
	if err := os.Symlink("nowhere", filepath.Join(u.home, ".lmstudio")); err != nil {
		t.Fatal(err)
	}
	u.connect(exitProblem, "", []string{"--client", "lmstudio", "--yes"}, "LM Studio (")
}

// TestConnectProject: the files of a project are in the directory in which the command runs.
func TestConnectProject(t *testing.T) {
	u := newUser(t)
	u.write(".config/Code/User/settings.json", "{}")
	u.write("gatehouse.yaml", "listen: 127.0.0.1:9191\nauth: {mode: none}\nupstreams: [{name: a, command: [a]}]\n")
	u.connect(0, "", []string{"--print", "--client", "claude-desktop", "-c", "gatehouse.yaml"},
		"Claude Desktop (~/.config/Claude/claude_desktop_config.json):\n", `"http://127.0.0.1:9191/mcp"`)
	u.write("other.yaml", "public_url: \"${env:NONE}\"\nauth: {mode: none}\nupstreams: [{name: a, command: [a]}]\n")
	u.connect(exitProblem, "", []string{"--yes", "-c", "other.yaml"}, "the URL of the gateway is needed")
	u.connect(0, "", []string{"--project", "--yes"}, "VS Code (~/.vscode/mcp.json)")
	if got := u.read(".vscode/mcp.json"); !strings.Contains(got, `"url": "http://127.0.0.1:9191/mcp"`) ||
		u.read(".config/Claude/claude_desktop_config.json") != "" {
		t.Error(got)
	}
	u.connect(0, "", []string{"--project", "--undo", "--yes"})
	if got := u.read(".vscode/mcp.json"); got != "" {
		t.Error(got)
	}
}

// TestConnectOwnCommand: Claude Code rewrites its file while it runs, so its own command changes it, if there is one.
func TestConnectOwnCommand(t *testing.T) {
	u := newUser(t)
	u.write(".claude.json", "{\n  \"numStartups\": 3\n}\n")
	u.write("bin/claude", `#!/bin/sh
echo "$*" >> "$HOME/called"
case $2 in
add) echo '{"numStartups": 4, "mcpServers": {"'$7'": {"url": "'$8'", "type": "http"}}}' > "$HOME/.claude.json" ;;
remove) echo '{"numStartups": 5}' > "$HOME/.claude.json" ;;
esac
`)
	if err := os.Chmod("bin/claude", 0o700); err != nil {
		t.Fatal(err)
	}
	u.connect(0, "", []string{"--yes"}, "written. Claude Code: a new session has it")
	if got := u.read("called"); got != "mcp add --transport http --scope user gatehouse http://127.0.0.1:8080/mcp\n" {
		t.Error(got)
	}
	u.connect(0, "", []string{"--yes", "--undo"}, "is as it was before")
	if got := u.read(".claude.json"); got != "{\n  \"numStartups\": 3\n}\n" {
		t.Error(got)
	}
	u.connect(0, "", []string{"--yes"})
	u.write(".claude.json", u.read(".claude.json")+"\n")
	u.connect(0, "", []string{"--yes", "--undo"}, "has changed since")
	if got := u.read(".claude.json"); got != "{\"numStartups\": 5}\n" || !strings.HasSuffix(u.read("called"),
		"mcp remove --scope user gatehouse\n") {
		t.Error(got)
	}
	u.write("bin/claude", "#!/bin/sh\necho no disk; exit 3\n")
	u.connect(exitProblem, "", []string{"--yes"}, "exit status 3: no disk")
	u.write("bin/claude", "#!/bin/sh\n")
	u.connect(exitProblem, "", []string{"--yes"}, "gatehouse http://127.0.0.1:8080/mcp has not changed this file")
	if got := u.connect(0, "", []string{"--undo"}); !strings.Contains(got, "nothing") {
		t.Error(got)
	}
	if err := os.Remove("bin/claude"); err != nil {
		t.Fatal(err)
	}
	u.connect(0, "", []string{"--yes"})
	if got := u.read(".claude.json"); !strings.Contains(got, `"numStartups": 5`) || !strings.Contains(got, `"gatehouse"`) {
		t.Error(got)
	}
}

// TestConnectHelp: the help names all clients.
func TestConnectHelp(t *testing.T) {
	u := newUser(t)
	help := u.connect(0, "", []string{"--help"})
	names := strings.FieldsFunc(help, func(r rune) bool { return strings.ContainsRune(" ,.\n", r) })
	for _, c := range (setup.Machine{}).Clients() {
		if !slices.Contains(names, c.ID) {
			t.Errorf("no %s in %s", c.ID, help)
		}
	}
}

// TestInitConnects: init goes on to the clients, if its user agrees. With --yes it does so with --connect alone.
func TestInitConnects(t *testing.T) {
	u := newUser(t)
	u.write(".cursor/mcp.json", "{}\n")
	for i, tt := range []struct {
		answers string
		args    []string
		want    bool
	}{
		{"", []string{"--yes"}, false},
		{"n\n", nil, false},
		{"", []string{"--yes", "--connect"}, true},
		{"y\ny\n", nil, true},
	} {
		var out bytes.Buffer
		args := append([]string{"init", "--no-probe", "--force", "https://a.example/mcp"}, tt.args...)
		if code := run(args, strings.NewReader(tt.answers), &out, &out); code != 0 {
			t.Fatalf("%d: %d %s", i, code, out.String())
		}
		if got := u.read(".cursor/mcp.json"); strings.Contains(got, "http://127.0.0.1:8080/mcp") != tt.want ||
			!strings.Contains(out.String(), "\n  gatehouse connect ") {
			t.Errorf("%d: %s %s", i, got, out.String())
		}
		u.connect(0, "", []string{"--undo", "--yes"})
	}
}
