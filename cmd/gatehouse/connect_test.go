package main

import (
	"bytes"
	"errors"
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
	t.Setenv("COPILOT_HOME", "")
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
	u.write(".config/zed/settings.json", "{}")
	u.connect(0, "y\n\nn\n", nil,
		"Cursor ("+u.home+"/.cursor/mcp.json):\n@@ ", "+    \"gatehouse\": {\"url\":\"http://127.0.0.1:8080/mcp\"},\n",
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
	if info, err = os.Stat(backup(".cursor/mcp.json")); err != nil || info.Mode().Perm() != 0o600 ||
		u.read(backup(".cursor/mcp.json")) != cursorFile {
		t.Errorf("the backup: %v %v", info, err)
	}
	if got := u.read(".config/zed/settings.json"); got != "{}" {
		t.Errorf("not agreed: %s", got)
	}
	u.connect(0, "", []string{"--yes"}, "has the gateway already", "Zed (")
	if got := u.read(".config/zed/settings.json"); !strings.Contains(got, `"url":"http://127.0.0.1:8080/mcp"`) {
		t.Error(got)
	}
	u.connect(0, "y\n\n", []string{"https://b.example/mcp", "--client", "cursor", "--client", "windsurf"},
		"-    \"gatehouse\": {\"url\":\"http://127.0.0.1:8080/mcp\"},\n",
		"+    \"gatehouse\": {\"url\":\"https://b.example/mcp\"},\n")
	if got := u.read(".codeium/windsurf/mcp_config.json"); !strings.Contains(got, `"serverUrl":"https://b.example/mcp"`) {
		t.Error(got)
	}
	u.connect(0, "n\nn\nn\nn\n", []string{"--undo"}, "-    \"gatehouse\": {")
	u.connect(0, "", []string{"--undo", "--yes"}, "  taken out\n")
	for name, want := range map[string]string{"dotfiles/mcp.json": cursorFile, ".codex/config.toml": codexFile,
		".config/zed/settings.json": "{}", ".codeium/windsurf/mcp_config.json": ""} {
		if got := u.read(name); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		if _, err := os.Stat(backup(name)); err == nil {
			t.Errorf("the backup of %s is left", name)
		}
	}
	if _, err := os.Stat(".codeium/windsurf/mcp_config.json"); err == nil {
		t.Error("a file that was not there before is left")
	}
	if got := u.connect(0, "", []string{"--undo"}); got != "nothing of this command is left\n" {
		t.Error(got)
	}
}

// backup is the name of the copy of a file.
func backup(name string) string { return name + ".before-gatehouse" }

// TestConnectUndoLater: what the user has changed since stays, and so does what another name has written.
func TestConnectUndoLater(t *testing.T) {
	u := newUser(t)
	u.write(".cursor/mcp.json", cursorFile)
	u.write(".config/Claude/claude_desktop_config.json", "")
	u.connect(0, "", []string{"--yes"})
	if got := u.read(".config/Claude/claude_desktop_config.json"); !strings.Contains(got, "\"--stdio\",") {
		t.Error(got)
	}
	u.write(".cursor/mcp.json", strings.Replace(u.read(".cursor/mcp.json"), "// mine", "// changed", 1))
	u.connect(0, "", []string{"https://work.example/mcp", "--name", "work", "--yes", "--client", "cursor"})
	u.connect(0, "y\n", []string{"https://c.example/mcp", "--client", "cursor"}, `{"url":"https://c.example/mcp"}`)
	u.write(".cursor/mcp.json", u.read(".cursor/mcp.json")+"\n")
	u.connect(0, "y\n\n", []string{"--undo"}, "  taken out\n")
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
	own := strings.Replace(u.read(".cursor/mcp.json"), `8080/mcp"`, `8080/mcp", "headers": {"X-A": "b"}`, 1)
	u.write(".cursor/mcp.json", own)
	u.connect(exitProblem, "", []string{"--yes"}, "is another server there")
	u.connect(exitProblem, "y\n", []string{"--undo"}, "is another server there now, which stays", backup("mcp.json"))
	if got := u.read(".cursor/mcp.json"); got != own {
		t.Error(got)
	}
	u.connect(0, "y\n", nil, "is another server there: replace it? [y]es, [N]o: ")
	u.connect(0, "\n", []string{"--undo"}, "  taken out")
	if got := u.read(".cursor/mcp.json"); got != own {
		t.Errorf("what was replaced is not back: %s", got)
	}
}

// TestConnectUndoAfterAll: the copy goes where the entry is gone already, and what it had replaced comes back, with a
// configuration that says no URL, too.
func TestConnectUndoAfterAll(t *testing.T) {
	u := newUser(t)
	const other = `{"mcpServers": {"gatehouse": {"command": "x"}}}`
	u.write(".cursor/mcp.json", other)
	u.connect(0, "y\n", nil, "replace it?")
	u.write(".cursor/mcp.json", `{"mcpServers": {}}`)
	u.write("gatehouse.yaml", "public_url: [\n")
	u.connect(0, "\n", []string{"--undo"}, "  taken out")
	got, left := u.read(".cursor/mcp.json"), u.read(backup(".cursor/mcp.json"))
	if !strings.Contains(got, `"command"`) || left != "" {
		t.Error(got)
	}
	u.write(".codeium/windsurf/mcp_config.json", "{")
	u.connect(0, "", []string{"--undo"}, "nothing of this command is left")
	u.connect(exitProblem, "", []string{"--yes", "http://127.0.0.1:1/mcp", "--client", "windsurf"}, "is not changed")
}

// TestConnectOlderFile: a file under the client's older name is the one to change, as long as it has no newer one.
func TestConnectOlderFile(t *testing.T) {
	u := newUser(t)
	const dir, gateway = ".config/opencode/", "http://127.0.0.1:1/mcp"
	u.write(dir+"opencode.json", "{}")
	u.connect(0, "", []string{"--yes", gateway}, "/opencode.json)")
	u.write(dir+"opencode.jsonc", "{}")
	u.connect(0, "", []string{"--yes", "--undo"}, "/opencode.json)")
	u.connect(0, "", []string{"--yes", gateway}, "/opencode.jsonc)")
	if got := u.read(dir + "opencode.json"); got != "{}" {
		t.Error(got)
	}
}

// TestConnectKeepsTheUsersEntry: an entry that reads like this command's own, but is the user's, comes back, and goes
// with no --undo; a copy of a file that has gone since counts no more.
func TestConnectKeepsTheUsersEntry(t *testing.T) {
	u := newUser(t)
	const own = "{\n  \"mcpServers\": {\"gatehouse\": {\"url\": \"https://mine.example/mcp\"}}\n}\n"
	u.write(".cursor/mcp.json", own)
	u.connect(0, "", []string{"--undo", "--yes"}, "nothing of this command is left")
	u.connect(0, "", []string{"--yes", "http://127.0.0.1:1/mcp"}, "written")
	u.connect(0, "", []string{"--undo", "--yes"}, "taken out")
	if got := u.read(".cursor/mcp.json"); got != own {
		t.Error(got)
	}
	u.connect(0, "", []string{"--yes", "http://127.0.0.1:1/mcp"}, "written")
	if err := os.Remove(".cursor/mcp.json"); err != nil {
		t.Fatal(err)
	}
	u.connect(0, "", []string{"--yes", "http://127.0.0.1:1/mcp"}, "written")
	u.connect(0, "", []string{"--undo", "--yes"}, "taken out")
	if _, err := os.Stat(".cursor/mcp.json"); err == nil {
		t.Error("a file that was not there is left")
	}
}

// TestConnectEmptyFiles: --undo leaves empty files that were there, also behind links, and removes others.
func TestConnectEmptyFiles(t *testing.T) {
	u := newUser(t)
	u.write("dotfiles/mcp.json", "")
	u.write(".codex/config.toml", "")
	u.write(".cursor/x", "")
	u.write(".kiro/x", "")
	u.write(".lmstudio/x", "")
	if err := os.Symlink("../dotfiles/mcp.json", filepath.Join(u.home, ".cursor", "mcp.json")); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"http://127.0.0.1:1/mcp", "http://127.0.0.1:2/mcp"} {
		u.connect(0, "", []string{"--yes", url})
	}
	if err := os.Remove(".lmstudio/mcp.json"); err != nil {
		t.Fatal(err)
	}
	u.connect(0, "", []string{"--yes", "--undo"})
	for _, name := range []string{".cursor/mcp.json", ".codex/config.toml"} {
		if info, err := os.Stat(name); err != nil || info.Size() != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if entries, err := os.ReadDir(".kiro/settings"); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestConfigUnread: a configuration that may not be read is not taken for none.
func TestConfigUnread(t *testing.T) {
	u := newUser(t)
	if err := os.Symlink("gatehouse.yaml", "gatehouse.yaml"); err != nil {
		t.Fatal(err)
	}
	u.connect(exitProblem, "", []string{"--client", "cursor", "--yes"}, "name the URL of the gateway: ",
		"gatehouse.yaml: ")
	var out bytes.Buffer
	if code := run([]string{"status"}, nil, &out, &out); code != exitProblem ||
		!strings.Contains(out.String(), "with --admin URL: --config is missing, and stat gatehouse.yaml: ") {
		t.Errorf("%d %s", code, out.String())
	}
}

// TestChangeFile: a file that another program has changed is neither written nor removed.
func TestChangeFile(t *testing.T) {
	u := newUser(t)
	u.write("a", "theirs")
	for _, now := range []string{"", "before"} {
		for _, there := range []bool{true, false} {
			if err := changeFile("a", now, "ours", there); err == nil || u.read("a") != "theirs" {
				t.Errorf("%v, %q", err, u.read("a"))
			}
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
		"Kiro ("+u.home+"/.kiro/settings/mcp.json) is not changed: line 1: this is not JSON")
	if u.read(".cursor/mcp.json") != other || !strings.Contains(u.read(".codex/config.toml"), "gatehouse") {
		t.Error(out)
	}
	u.connect(0, "", []string{"--client", "cursor", "--undo", "--yes"}, "nothing of this command is left")
	out += u.connect(0, "\n", []string{"--client", "cursor"}, "is another server there: replace it? [y]es, [N]o: ")
	if got := u.read(".cursor/mcp.json"); got != other {
		t.Error(got)
	}
	out += u.connect(0, "y\n", []string{"--client", "cursor"}, "<secret>", "written")
	if got := u.read(".cursor/mcp.json"); strings.Contains(got, "secret-value") {
		t.Error(got)
	}
	u.write(".cursor/mcp.json", u.read(".cursor/mcp.json")+"\n")
	out += u.connect(0, "", []string{"--client", "cursor", "--undo", "--yes"}, "  taken out\n", "<secret>")
	if got := u.read(".cursor/mcp.json"); !strings.Contains(got, "\"X-Api-Key\":\"secret-value\"") &&
		!strings.Contains(got, "\"X-Api-Key\": \"secret-value\"") {
		t.Errorf("the entry of before is not back: %s", got)
	}
	out += u.connect(exitUsage, "", []string{"https://u:secret-value@a.example/mcp"}, "the URL has a secret")
	out += u.connect(exitUsage, "", []string{"a.example"}, "the URL of the gateway is needed")
	if strings.Contains(out, "secret-value") {
		t.Error(out)
	}
	u.connect(exitUsage, "", []string{"--stdio", "http://a.example"}, "or http:// on this machine")
	u.connect(exitProblem, "", []string{"--print", "--client", "claude-desktop", "http://a.example/mcp"},
		"needs the bridge: want the URL of a server: https://")
	u.connect(exitUsage, "", []string{"--client", "emacs"},
		`--client ["emacs"]: want names that gatehouse connect --help has`)
	u.connect(exitUsage, "", []string{"--client-id", "x"}, "--client-id: write connect --stdio URL")
	u.connect(exitUsage, "", []string{"--stdio", "--undo", "http://127.0.0.1:1/mcp"}, "not go together: --stdio --undo")
	u.connect(exitUsage, "", []string{"--name", "a b"}, "want letters, digits")
	if err := os.Symlink("nowhere", filepath.Join(u.home, ".lmstudio")); err != nil {
		t.Fatal(err)
	}
	u.connect(exitProblem, "", []string{"--client", "lmstudio", "--yes"}, "LM Studio (")
}

// TestConnectURL: the URL is that of the configuration, and --print changes nothing.
func TestConnectURL(t *testing.T) {
	u := newUser(t)
	u.write("gatehouse.yaml", "listen: 127.0.0.1:9191\nauth: {mode: none}\nupstreams: [{name: a, command: [a]}]\n")
	u.connect(0, "", []string{"--print", "--client", "claude-desktop", "-c", "gatehouse.yaml"},
		"Claude Desktop ("+u.home+"/.config/Claude/claude_desktop_config.json):\n", `"http://127.0.0.1:9191/mcp"`)
	u.connect(0, "", []string{"--print", "--client", "codex"},
		"[mcp_servers.gatehouse]\nurl = \"http://127.0.0.1:9191/mcp\"\n")
	if u.read(".config/Claude/claude_desktop_config.json") != "" {
		t.Error("--print has written")
	}
	u.write("other.yaml", "public_url: \"${env:NONE}\"\nauth: {mode: none}\nupstreams: [{name: a, command: [a]}]\n")
	u.connect(exitProblem, "", []string{"--yes", "--client", "codex", "-c", "other.yaml"},
		"the URL of the gateway is needed")
}

// TestThisProgram: clients start the program by the path in PATH, which is a link where Homebrew has installed it.
func TestThisProgram(t *testing.T) {
	u := newUser(t)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u.write("bin/gatehouse", "another program")
	link := filepath.Join(u.home, "bin", "gatehouse")
	if err := os.Chmod(link, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{own, link} {
		if got, err := thisProgram(); err != nil || got != want {
			t.Errorf("%s %v, want %s", got, err, want)
		}
		if err := errors.Join(os.Remove(link), os.Symlink(own, link)); err != nil {
			t.Fatal(err)
		}
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
