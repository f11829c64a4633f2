package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// files writes files into a directory of the test, and returns the path of gatehouse.yaml there.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "gatehouse.yaml")
}

const ownFile = "include: [conf.d/*.yaml]\npolicy: {default: deny, rules: [{name: all, allow: [\"*:main/*\"]}]}\n" +
	"upstreams: [{name: main, url: https://main.example}]\n"

func TestInclude(t *testing.T) {
	at := files(t, map[string]string{"gatehouse.yaml": ownFile,
		"conf.d/b.yaml": "upstreams:\n- {name: b, url: https://b.example}\n- {name: c, skills: skills}\n",
		"conf.d/a.yaml": "policy:\n" +
			"  rules:\n  - {name: a, allow: [\"tools:b/*\"]}\nviews: [{name: v, show: [\"tools:b/*\"]}]\n",
		"conf.d/other":   "not: yaml: at all",
		"skills/.hidden": "",
	})
	l, err := Read(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(at)
	if got := l.Config.UpstreamNames(); !slices.Equal(got, []string{"main", "b", "c"}) {
		t.Errorf("upstreams %q", got)
	}
	if got, want := l.Config.Upstreams[2].Skills, filepath.Join(dir, "skills"); got != want {
		t.Errorf("skills of a relative path: %s, want %s", got, want)
	}
	if got, want := l.Places["a"], filepath.Join(dir, "conf.d/a.yaml")+":3"; got != want {
		t.Errorf("the rule a is at %s, want %s", got, want)
	}
	if len(l.Config.Views) != 1 || len(l.Config.Policy.Rules) != 2 {
		t.Errorf("%d views, %d rules", len(l.Config.Views), len(l.Config.Policy.Rules))
	}
	if _, err := ReadBlindly("draft", []byte(ownFile), nil); err == nil ||
		!strings.Contains(err.Error(), "other files are not read here") {
		t.Errorf("a draft that includes files: %v", err)
	}
	if l, err := ReadGiven(at); err != nil || len(l.Config.Upstreams) != 3 {
		t.Errorf("with references for given: %d upstreams, %v", len(l.Config.Upstreams), err)
	}
}

// TestIncludedProblems: mistakes are reported in the file that has them, those with other files, too.
func TestIncludedProblems(t *testing.T) {
	at := files(t, map[string]string{"gatehouse.yaml": ownFile,
		"conf.d/a.yaml": "upstreams:\n- name: a\n  url: https://a.example\n  timeout: {call: 5}\nlisten: 0.0.0.0:1\n",
		"conf.d/b.yaml": "upstreams:\n- {name: x, url: https://x.example}\n- name: Main\n  url: https://b.example\n",
		"conf.d/c.yaml": "upstreams: [\n",
	})
	_, err := Read(at, nil)
	if err == nil {
		t.Fatal("no problem")
	}
	text := strings.ReplaceAll(err.Error(), filepath.Dir(at)+"/conf.d/", "")
	for _, want := range []string{
		`a.yaml:4: upstreams[1] (a): timeout.call: duration "5" has no unit`,
		`a.yaml:5: unknown key "listen"`,
		`b.yaml:3: upstreams[3] (Main): name: upstreams[0] is called "main" already`,
		`c.yaml:1: not valid YAML`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestIncludedFilesAreWatched: a file that is added, changed or removed is taken up.
func TestIncludedFilesAreWatched(t *testing.T) {
	at := files(t, map[string]string{"gatehouse.yaml": ownFile,
		"conf.d/a.yaml": "upstreams: [{name: a, url: https://a.example}]\n"})
	f := &File{Path: at}
	added := filepath.Join(filepath.Dir(at), "conf.d", "b.yaml")
	for _, change := range []func() error{
		func() error { return os.WriteFile(added, []byte("upstreams: []\n"), 0o600) },
		func() error { return os.WriteFile(added, []byte("views: []\n"), 0o600) },
		func() error { return os.Remove(added) },
	} {
		if _, err := f.Load(nil); err != nil {
			t.Fatal(err)
		}
		f.Changed()
		if f.Changed() {
			t.Error("changed before the change")
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		f.Changed()
		if !f.Changed() {
			t.Error("a change was not noticed")
		}
	}
}

// TestTeamsAreBound: a file of a team is refused if it names what the team may not.
func TestTeamsAreBound(t *testing.T) {
	t.Setenv("CRM_TOKEN", "crm-secret")
	t.Setenv("OTHER_TOKEN", "other-secret")
	const teams = ownFile + "teams:\n- {name: crm, files: [crm*.yaml], secrets: [\"env:CRM_*\", \"file:/run/crm/*\"]}\n" +
		"- {name: ops, files: [ops.yaml], upstreams: [\"o*\"], local: true}\n"
	server := func(more string) string { return "upstreams: [{name: crm-eu, url: https://c.example" + more + "}]\n" }
	rule := func(rule string) string { return "policy: {rules: [{name: crm-x, " + rule + "}]}\n" }
	for _, tt := range []struct{ name, file, text, want string }{
		{"its own", "crm.yaml", server(", headers: {Authorization: \"Bearer ${env:CRM_TOKEN}\"}") +
			rule(`allow: ["tools:crm-*/*", "tools:crm/*"]`) + "views: [{name: crm, show: [\"*:crm-eu/*\"]}]\n", ""},
		{"a rule that is wider", "crm.yaml",
			rule(`allow: ["tools:crm*/get_*"]`), `"tools:crm*/get_*": the team crm may name`},
		{"a program where it may", "ops.yaml", "upstreams: [{name: ops, command: [\"true\"]}]\n", ""},
		{"another's name", "crm.yaml",
			"upstreams: [{name: mail, url: https://c.example}]\n", "the team crm may have crm, crm-*"},
		{"a name that only begins like its own", "crm.yaml",
			"upstreams: [{name: crmx, url: https://c.example}]\n", "may have"},
		{"a program", "crm.yaml", "upstreams: [{name: crm, command: [\"true\"]}]\n", "servers at a url alone"},
		{"a directory", "crm.yaml", "upstreams: [{name: crm, skills: /etc}]\n", "servers at a url alone"},
		{"another's secret", "crm.yaml", server(", headers: {X: \"${env:OTHER_TOKEN}\"}"), "may not use it"},
		{"another's file", "crm.yaml", server(", headers: {X: \"${file:/run/ops/token}\"}"), "may not use it"},
		{"another's file by steps up", "crm.yaml",
			server(", headers: {X: \"${file:/run/crm/../ops/token}\"}"), "may not use it"},
		{"a file below its directory", "crm.yaml",
			server(", headers: {X: \"${file:/run/crm/a/b}\"}"), "may not use it"},
		{"another's certificate", "crm.yaml",
			server(", tls: {cert_file: /run/ops/cert.pem, key_file: /run/ops/key.pem}"), "is not among the team's secrets"},
		{"its own certificate", "crm.yaml",
			server(", tls: {cert_file: /run/crm/cert.pem, key_file: /run/crm/key.pem}"), ""},
		{"users' tokens", "crm.yaml",
			server(", auth: {type: token_exchange, token_url: https://c.example/token}"), "sends tokens of users"},
		{"pinning", "crm.yaml", server(", pinning: {mode: \"off\"}"), "only the main file decides"},
		{"a rule for all", "crm.yaml", rule(`allow: ["*:*"]`), "may name crm, crm-* alone"},
		{"a rule for others", "crm.yaml", rule(`deny: ["tools:main/*"]`), "may name"},
		{"a rule that asks at others", "crm.yaml", rule(`ask: ["tools:m*/*"]`), "may name"},
		{"a rule by another's name", "crm.yaml",
			"policy: {rules: [{name: all2, allow: [\"tools:crm/*\"]}]}\n", "begins with crm-"},
		{"the default of policy", "crm.yaml", "policy: {default: allow}\n", "unknown key"},
		{"a view of others", "crm.yaml", "views: [{name: crm, show: [\"tools:main/*\"]}]\n", "may name"},
		{"a view's path", "crm.yaml",
			"views: [{name: crm, path: /x, show: [\"tools:crm/*\"]}]\n", "only the main file gives paths"},
		{"further files", "crm.yaml", "include: [/etc/*]\n", "unknown key"},
		{"a prefix of others", "crm.yaml", server(`, prefix: "main__d"`), "only the main file gives prefixes"},
		{"the gateway's own port", "crm.yaml", "upstreams: [{name: crm, url: http://127.0.0.1:9090/x}]\n",
			"no service of this machine"},
		{"a token of the gateway's own port", "crm.yaml", server(", auth: {type: client_credentials, client_id: a, " +
			"client_secret: \"${env:CRM_TOKEN}\", token_url: \"http://localhost:9090/api/v1/reload\"}"),
			"no service of this machine"},
		{"the cloud's services", "crm.yaml", server(`, proxy: "http://169.254.169.254"`), "no service of this machine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := files(t, map[string]string{"gatehouse.yaml": teams, "conf.d/" + tt.file: tt.text})
			_, err := Read(at, nil)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			case err != nil && strings.Contains(err.Error(), "other-secret"):
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
}

// TestMistakeOfATeam: it stops no other team, and takes nothing from its own that ran.
func TestMistakeOfATeam(t *testing.T) {
	const (
		teams = "teams: [{name: crm, files: [crm*.yaml]}, {name: mail, files: [mail.yaml]}]\n"
		good  = "upstreams: [{name: crm, url: https://crm.example}]\n"
		mail  = "upstreams: [{name: mail, url: https://mail.example}]\n"
	)
	write := func(at, name, text string) {
		if err := os.WriteFile(filepath.Join(filepath.Dir(at), "conf.d", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, bad, problem string }{
		{"no YAML", "upstreams: [\n", "crm.yaml:"},
		{"unknown key", "upstream: []\n", `unknown key "upstream"`},
		{"invalid", "upstreams: [{name: crm, url: gopher://x}]\n", "url"},
		{"not the team's", "upstreams: [{name: mail, url: https://x.example}]\n", "the team crm may have crm, crm-*"},
		{"a secret", "upstreams: [{name: crm, url: https://x.example, headers: {A: \"${env:HOME}\"}}]\n", "env:HOME"},
		{"unreadable", "", "cannot be read"},
		{"a second file", "upstreams: [{name: crm, url: https://b.example}]\n", `is called "crm" already`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := files(t, map[string]string{"gatehouse.yaml": ownFile + teams,
				"conf.d/crm.yaml": good, "conf.d/mail.yaml": mail})
			f := &File{Path: at}
			l, err := f.Load(nil)
			if err != nil || len(l.Refused) != 0 {
				t.Fatal(err, l.Refused)
			}
			f.Applied(l)
			running := l.Config
			bad := map[bool]string{true: "crm-eu.yaml", false: "crm.yaml"}[tt.name == "a second file"]
			if tt.bad == "" { // a directory is no file
				os.Remove(filepath.Join(filepath.Dir(at), "conf.d", bad))
				if err := os.Mkdir(filepath.Join(filepath.Dir(at), "conf.d", bad), 0o700); err != nil {
					t.Fatal(err)
				}
			} else {
				write(at, bad, tt.bad)
			}
			write(at, "mail.yaml", strings.ReplaceAll(mail, "mail.example", "new.example"))
			for range 2 { // the second time, what it had is still known
				l, err = f.Load(&running)
				if err != nil || !slices.Equal(l.Refused, []string{"crm"}) {
					t.Fatalf("a reload: %v, refused %q", err, l.Refused)
				}
				f.Applied(l)
				if u := l.Config.Upstreams; len(u) != 3 || u[1].URL != "https://crm.example" || u[2].URL != "https://new.example" {
					t.Errorf("a reload has %+v", u)
				}
			}
			if len(l.Doubts) == 0 || !strings.Contains(l.Doubts[0].String(), tt.problem) ||
				!strings.HasSuffix(l.Doubts[0].Message, ": the team crm keeps what it had") {
				t.Errorf("doubts %v", l.Doubts)
			}
			if l, err = (&File{Path: at}).Load(nil); err != nil ||
				!slices.Equal(l.Config.UpstreamNames(), []string{"main", "mail"}) ||
				!strings.HasSuffix(l.Warnings[0].Message, ": the team crm is left out") {
				t.Errorf("a start: %v, %q, %v", err, l.Config.UpstreamNames(), l.Warnings)
			}
			if _, err := Read(at, nil); err == nil {
				t.Error("a check finds nothing")
			}
			os.Remove(filepath.Join(filepath.Dir(at), "conf.d", bad))
			write(at, bad, map[bool]string{true: "upstreams: []\n", false: good}[tt.name == "a second file"])
			if !f.Changed() {
				f.Changed() // it waits for a file that is being written
			}
			if l, err = f.Load(&running); err != nil || len(l.Refused) != 0 {
				t.Errorf("mended: %v, refused %q", err, l.Refused)
			}
		})
	}
}

// TestMistakeOfATeamStops: a start is refused when rules that are left out might be about upstreams that stay, and
// when the main file has mistakes, too.
func TestMistakeOfATeamStops(t *testing.T) {
	for own, want := range map[string]string{
		"upstreams: [{name: crm, url: https://crm.example}]\n": "as it may have rules about the upstream crm",
		"listen: nowhere\n": "listen",
	} {
		at := files(t, map[string]string{
			"gatehouse.yaml":  "include: [conf.d/*.yaml]\nteams: [{name: crm, files: [crm.yaml]}]\n" + own,
			"conf.d/crm.yaml": "policy: {rules: [{name: crm, deny: [\"tools:crm/*\"]}\n",
		})
		_, err := (&File{Path: at}).Load(nil)
		if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "crm.yaml") {
			t.Errorf("%s: %v", own, err)
		}
	}
}

// TestFilesOfNoTeam: a file that no team owns is left out, and says so; two teams own nothing together.
func TestFilesOfNoTeam(t *testing.T) {
	at := files(t, map[string]string{
		"gatehouse.yaml":   ownFile + "teams: [{name: crm, files: [crm.yaml]}]\n",
		"conf.d/mail.yaml": "upstreams: [{name: mail, url: https://mail.example}]\n",
	})
	l, err := Read(at, nil)
	if err != nil || len(l.Config.Upstreams) != 1 {
		t.Fatalf("%q, %v", l.Config.UpstreamNames(), err)
	}
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0].Message, "mail.yaml is left out: no team has such a file") {
		t.Errorf("warnings %v", l.Warnings)
	}
	for second, want := range map[string]string{
		"{name: crm-eu, files: [crm-eu.yaml]}":                        "those of teams[0] (crm), too",
		"{name: sales, files: [sales.yaml], upstreams: [\"*-mail\"]}": "those of teams[0] (crm), too",
		"{name: sales, files: [\"c*.yaml\"]}":                         "is the file of 2 teams",
	} {
		at := files(t, map[string]string{
			"gatehouse.yaml":  ownFile + "teams: [{name: crm, files: [crm.yaml]}, " + second + "]\n",
			"conf.d/crm.yaml": "upstreams: []\n",
		})
		if _, err := Read(at, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", second, err, want)
		}
	}
	at = files(t, map[string]string{"gatehouse.yaml": strings.Replace(ownFile, "conf.d/*.yaml", `"*/a*.yaml"`, 1)})
	if _, err := Read(at, nil); err == nil || !strings.Contains(err.Error(), "only the name of a file may have a *") {
		t.Errorf("a pattern of directories: %v", err)
	}
}

// TestDefaultsKeepSecrets: headers and certificates of the main file go to no server of a team.
func TestDefaultsKeepSecrets(t *testing.T) {
	at := files(t, map[string]string{
		"gatehouse.yaml": ownFile +
			"defaults: {headers: {X-Key: own}, timeout: {call: 2m}}\nteams: [{name: crm, files: [crm.yaml]}]\n",
		"conf.d/crm.yaml": "upstreams: [{name: crm, url: https://crm.example}]\n",
	})
	l, err := Read(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	if u := l.Config.Upstreams[1]; u.Headers != nil || u.Timeout.Call != 2*time.Minute {
		t.Errorf("the team's server has %v, %v", u.Headers, u.Timeout)
	}
}

func TestDefaultsOfUpstreams(t *testing.T) {
	at := files(t, map[string]string{
		"gatehouse.yaml": "include: [more.yaml]\n" +
			"defaults: {timeout: {call: 2m, ask: 7m}, limits: {concurrent: 9}, headers: {X-A: a}, sandbox: {network: none}}\n" +
			"upstreams:\n- {name: a, url: https://a.example}\n" +
			"- {name: b, url: https://b.example, timeout: {call: 1m}, headers: {X-B: b}}\n" +
			"- {name: c, command: [\"true\"]}\n- {name: d, skills: .}\n",
		"more.yaml": "upstreams: [{name: e, url: https://e.example, limits: {sessions: 5}}]\n",
	})
	l, err := Read(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := l.Config.Upstreams
	for i, want := range []time.Duration{2 * time.Minute, time.Minute, 2 * time.Minute, 0, 2 * time.Minute} {
		if got := u[i].Timeout.Call; got != want {
			t.Errorf("%s: timeout.call is %s, want %s", u[i].Name, got, want)
		}
	}
	if u[1].Timeout.Ask != 7*time.Minute || u[1].Headers["X-A"] != "a" || u[1].Headers["X-B"] != "b" {
		t.Errorf("b has %v %v", u[1].Timeout, u[1].Headers)
	}
	if u[2].Sandbox == nil || u[2].Sandbox.Network != "none" || u[0].Sandbox != nil {
		t.Errorf("c has the box %+v, a %+v", u[2].Sandbox, u[0].Sandbox)
	}
	if u[2].Headers != nil {
		t.Errorf("a program has headers: %v", u[2].Headers)
	}
	if u[4].Limits.Concurrent != 9 || u[4].Limits.Sessions != 5 {
		t.Errorf("e has %+v", u[4].Limits)
	}
	for text, want := range map[string]string{
		"defaults: {url: https://a.example}":   `c.yaml:1: defaults: unknown key "url"`,
		"defaults: {timeout: {call: -1s}}":     `c.yaml:1: upstreams[0] (a): timeout: call: `,
		"defaults: {disclosure: {mode: some}}": `c.yaml:1: upstreams[0] (a): disclosure`,
	} {
		_, problems := parse(t, text+"\nupstreams: [{name: a, url: https://a.example}]\n")
		if len(problems) != 1 || !strings.HasPrefix(strings.ReplaceAll(problems[0], "timeout.call", "timeout: call"), want) {
			t.Errorf("%s: %q, want %q", text, problems, want)
		}
	}
}

// TestBoxesApart: no box has a path below one that a program may write.
func TestBoxesApart(t *testing.T) {
	for paths, want := range map[string]bool{
		"read: [/srv/files/docs]": false, "read: [/srv/files]": true, "read: [/srv]": true, "write: [/srv/filesystem]": true,
		"write: [/srv/files/../files/x]": false, "write: [/var/x, /var/x/cache]": false,
	} {
		_, problems := parse(t, "upstreams:\n- {name: a, command: [a], sandbox: {write: [/srv/files]}}\n"+
			"- {name: b, command: [b], sandbox: {"+paths+"}}\n")
		if (problems == nil) != want || !want && !strings.Contains(problems[0], "upstreams[1] (b): sandbox: ") {
			t.Errorf("%s: %q", paths, problems)
		}
	}
}

// TestFilesOfAnOperatorAreWatched: while a team is set aside, the gateway sees changes of the files of the operator.
func TestFilesOfAnOperatorAreWatched(t *testing.T) {
	at := files(t, map[string]string{
		"gatehouse.yaml": ownFile + "teams: [{name: crm, files: [crm.yaml]}]\nauth: {mode: keys, keys: {file: keys.yaml}}\n",
		"keys.yaml":      "keys: []\n", "conf.d/crm.yaml": "upstreams: [\n",
	})
	f := &File{Path: at}
	l, err := f.Load(nil)
	if err != nil || len(l.Refused) != 1 {
		t.Fatal(err, l.Refused)
	}
	keys := filepath.Join(filepath.Dir(at), "keys.yaml")
	if err := os.WriteFile(keys, []byte("keys: []\n# changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Changed() // it waits for a file that is being written
	if !f.Changed() {
		t.Error("a change of the file of keys is not seen")
	}
}
