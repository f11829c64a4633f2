package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// notRun are beginnings of commands that are not run, and why.
var notRun = map[string]string{
	"docker ":                             "needs images from the Internet",
	"kubectl ":                            "needs a cluster; make interop builds the manifests",
	"helm ":                               "needs a cluster; make interop renders the chart",
	"gatehouse discover":                  "needs a cluster",
	"sudo ":                               "changes this machine; make release-check tries the packages",
	"less install.sh":                     "changes this machine; make release-check tries it",
	"npm ":                                "needs the Internet; a script stands for these servers",
	"npx @modelcontextprotocol/inspector": "needs the Internet; make interop runs the Inspector",
	"claude ":                             "needs the Internet; make interop runs Claude Code",
	"make ":                               "compiles or measures; TestDocsParse knows the targets",
	"go run ":                             "measures for minutes, or builds a release",
	"cosign ":                             "needs a release",
	"gh ":                                 "needs a release",
	"sha256sum ":                          "needs a release",
	"cd dist ":                            "needs a release; make release-check builds it twice",
}

// announced are beginnings of commands that end with another exit code than 0, as the text of their page says. For
// gatehouse explain, a comment behind the command says so: allow, ask or deny.
var announced = map[string]int{
	"openssl s_client -connect localhost:443 -tls1_1": 1,
	"pbpaste | gatehouse auth test":                   1, // the token is for another audience
}

// values are what stands for ids and digests of pages: variables that seed in testdata/docs sets.
var values = strings.NewReplacer("sha256:5b0c...", `'"$PIN"'`, "5b0c...", `'"$DIGEST"'`,
	"why -c gatehouse.yaml 77awmbrn4whn-3", "why -c gatehouse.yaml $DONE", "77awmbrn4whn-3", "$CALL",
	"3f8e22a04c1b", "$SESSION", "ghk_4f7K2m9Q3a", `$(cut -c 1-14 "$OUT/key")`)

var (
	seeded     = regexp.MustCompile(`\$(PIN|DIGEST|CALL|DONE|SESSION)\b`)
	left       = regexp.MustCompile(`(\w+)=\.\.\.`) // out
	decision   = regexp.MustCompile(`# +(allow|ask|deny)$`)
	comment    = regexp.MustCompile(`(?m)(^|\s)#.*$`)
	programs   = regexp.MustCompile(`^(\$ |(curl|gatehouse|jq|kubectl|helm|openssl|docker|npx|claude|make|sudo) )`)
	varied     = regexp.MustCompile(`[\w:.-]*\d[\w:.-]*`)
	spaces     = regexp.MustCompile(`\s+`)
	dots       = regexp.MustCompile(`…|\\\.\\\.\\\.`)
	editorLine = "# yaml-language-server: "
)

// step is a command of a page.
type step struct {
	line    int // of the page
	command string
	want    string // what the page says is printed
	code    int
}

// guide has the commands of a page, or of a section with a setup of its own.
type guide struct {
	name, page string
	config     string // "" if there is none yet
	steps      []step
}

// runs reports whether a command of the guide begins in this way.
func (g *guide) runs(start string) bool {
	return slices.ContainsFunc(g.steps, func(s step) bool {
		return strings.HasPrefix(strings.TrimPrefix(s.command, "bin/"), start)
	})
}

// text is all that names hosts.
func (g *guide) text() string {
	text := g.config
	for _, s := range g.steps {
		text += s.command
	}
	return text
}

// TestDocsCommands runs the commands of each page in their order, as its reader would, with a gateway, servers and an
// issuer behind the addresses of the page, and compares what the page says is printed.
func TestDocsCommands(t *testing.T) {
	used, run := map[string]bool{}, 0
	for name, page := range docPages(t) {
		for _, g := range guides(t, name, page) {
			g.steps = slices.DeleteFunc(g.steps, func(s step) bool { return startsAs(notRun, s.command, used) != "" })
			for i, s := range g.steps {
				if start := startsAs(announced, s.command, used); start != "" {
					g.steps[i].code = announced[start]
				}
			}
			if run += len(g.steps); len(g.steps) > 0 {
				t.Run(g.name, func(t *testing.T) {
					t.Parallel()
					newReader(t, g).read(g)
				})
			}
		}
	}
	if len(used) != len(notRun)+len(announced) || run < 100 {
		t.Errorf("%d commands are run, and of notRun and announced only %v are on pages", run, used)
	}
}

// startsAs returns the key of a table that a command begins with, "" for none, and marks it as used.
func startsAs[V any](table map[string]V, command string, used map[string]bool) string {
	for start := range table {
		if strings.HasPrefix(command, start) {
			used[start] = true
			return start
		}
	}
	return ""
}

// guides finds the commands of a page: in blocks of sh, in those of console behind "$ ", and in the examples of the
// reference of the commands.
func guides(t *testing.T, name, page string) []*guide {
	t.Helper()
	usual, err := os.ReadFile("testdata/docs/gatehouse.yaml")
	if err != nil {
		t.Fatal(err)
	}
	g := &guide{name: name, page: name, config: setups[name]}
	whole, all := g, []*guide{g}
	inside, language, example, pending := false, "", false, ""
	for i, line := range strings.Split(page, "\n") {
		text := strings.TrimSpace(line)
		fence, isFence := strings.CutPrefix(text, "```")
		switch {
		case isFence:
			inside, language, example = !inside, fence, false
		case !inside && strings.HasPrefix(text, "#"):
			g = whole
			for at, config := range setups {
				if at == name || !strings.HasPrefix(name+"#"+strings.TrimLeft(text, "# "), at) {
					continue
				}
				if known := slices.IndexFunc(all, func(g *guide) bool { return g.name == at }); known >= 0 {
					g = all[known]
					continue
				}
				g = &guide{name: at, page: name, config: config}
				all = append(all, g)
			}
		case !inside:
		case language == "" && programs.MatchString(text):
			t.Errorf("%s:%d: a command in a block without a language: want sh or console", name, i+1)
		case language == "text" && (text == "" || text == "Examples:"):
			example = text != ""
		case language == "text" && example:
			g.steps = append(g.steps, step{line: i + 1, command: text})
		case language == "console" && pending == "" && !strings.HasPrefix(text, "$ "):
			g.steps[len(g.steps)-1].want += text + "\n"
		case language == "console" || language == "sh":
			if language == "console" && pending == "" {
				line = strings.TrimPrefix(text, "$ ")
			}
			pending += line + "\n"
			if strings.HasSuffix(line, `\`) || strings.Count(comment.ReplaceAllString(pending, ""), "'")%2 == 1 {
				continue
			}
			s := step{line: i + 1, command: strings.TrimSpace(pending)}
			if m := decision.FindStringSubmatch(s.command); m != nil {
				s.code = map[string]int{"allow": 0, "ask": 4, "deny": 3}[m[1]]
			}
			if pending = ""; s.command != "" && s.command[0] != '#' {
				g.steps = append(g.steps, s)
			}
		}
	}
	for _, text := range blocks(page, "yaml") {
		if whole.config == "" && strings.HasPrefix(text, editorLine) {
			whole.config = text
		}
	}
	for _, g := range all {
		if g.config == "" && !g.runs("gatehouse init") {
			g.config = string(usual)
		}
	}
	return all
}

// read runs the commands in one shell, and looks at the exit code and the output of each.
func (r *reader) read(g *guide) {
	t := r.t
	t.Helper()
	for _, program := range []string{"bash", "curl", "jq", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: CONTRIBUTING.md says what the tests need", err)
		}
	}
	if g.runs("systemd-socket-activate") {
		activator(t)
	}
	script := ". \"$OUT/prelude.sh\"\n"
	own := g.runs("gatehouse serve") || g.runs("gatehouse init") || g.runs("systemd-socket-activate")
	if !own && strings.Contains(g.config, "listen:") {
		script += "gatehouse serve -c gatehouse.yaml || exit\n"
		if strings.Contains(g.config, "user_oauth") {
			script += "seed || exit\n"
		}
	}
	if g.name == stopped {
		script += "systemctl stop gatehouse\n"
	}
	for i, s := range g.steps {
		command := values.Replace(left.ReplaceAllString(r.here(s.command), `$1="$${$1:-$$SECRET}"`))
		if seeded.MatchString(command) {
			script += "seed || exit\n"
		}
		script += fmt.Sprintf("{ %s\n} >$OUT/%d.out 2>$OUT/%[2]d.err <$OUT/yes; echo $? >$OUT/%[2]d.code\n", command, i)
	}
	r.copy("testdata/docs/prelude.sh", "out/prelude.sh")
	r.file("out/yes", strings.Repeat("y\n", 20))
	r.file("out/script.sh", script+"finish\n")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "out/script.sh")
	bash.Dir, bash.Env = r.dir, r.env // nothing of who runs the test, such as where their clients have files
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bash.Cancel = func() error { return syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) }
	bash.WaitDelay = 10 * time.Second
	said, err := bash.CombinedOutput()
	_ = syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) // what still waits for a gateway that has ended
	if err != nil || len(said) > 0 {
		t.Errorf("%v\n%s", err, said)
	}
	for i, s := range g.steps {
		of := func(kind string) string {
			text, err := os.ReadFile(r.path(fmt.Sprintf("out/%d.%s", i, kind)))
			if err != nil {
				t.Fatalf("%s:%d: not run: %s", g.page, s.line, s.command)
			}
			return string(text)
		}
		printed := of("out") + of("err")
		switch code := strings.TrimSpace(of("code")); {
		case code != strconv.Itoa(s.code) || strings.Contains(printed, "script.sh: line "):
			t.Errorf("%s:%d: %s\nexit code %s, want %d\n%s", g.page, s.line, s.command, code, s.code, printed)
		case !prints(printed, r.here(s.want)):
			t.Errorf("%s:%d: %s\nprints\n%s\nand the page has\n%s", g.page, s.line, s.command, printed, s.want)
		}
	}
}

// prints reports whether all lines of a page are in what was printed, in their order. White space does not count, nor
// do words with a digit, such as times and ids, and … or ... stands for anything.
func prints(printed, page string) bool {
	same := func(text string) string { return spaces.ReplaceAllString(varied.ReplaceAllString(text, "0"), " ") }
	pattern := `(?s)`
	for line := range strings.SplitSeq(page, "\n") {
		pattern += `.*` + dots.ReplaceAllString(regexp.QuoteMeta(same(strings.TrimSpace(line))), `.*`)
	}
	return regexp.MustCompile(pattern).MatchString(same(printed))
}
