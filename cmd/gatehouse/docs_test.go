package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
)

// docPages returns the texts of README.md and of all pages of docs/ by their files.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	add := func(file string) error {
		text, err := os.ReadFile(file)
		pages[strings.TrimPrefix(filepath.ToSlash(file), "../../")] = string(text)
		return err
	}
	err := add("../../README.md")
	if err == nil {
		err = filepath.WalkDir("../../docs", func(file string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(file) == ".md" {
				err = add(file)
			}
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// blocks returns the code blocks of a page in a language, without the indentation that they share.
func blocks(page, language string) (texts []string) {
	fence := regexp.MustCompile("(?ms)^( *)```" + language + "\n(.*?)^ *```$")
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		indent := regexp.MustCompile(`^ *`).FindString(m[2])
		texts = append(texts, strings.TrimPrefix(strings.ReplaceAll("\n"+m[2], "\n"+indent, "\n"), "\n"))
	}
	return texts
}

// otherYAML are keys of files of other programs. TestDocsBlocks of make interop tries all but the last two, which are
// of a workflow of GitHub and of a part of a pod.
var otherYAML = []string{"apiVersion", "scrape_configs", "configMapGenerator", "components", "permissions", "volumes"}

// rest completes a part of a configuration: sections that it lacks, and keys of its sections that these need.
var rest = map[string]map[string]string{
	"public_url": {"": "https://mcp.example.com/mcp"},
	"auth":       {"": `{mode: oauth, issuers: [{url: "https://login.example.com"}]}`},
	"policy":     {"": "{default: allow}", "default": "allow"},
	"upstreams":  {"": `[{name: crm, url: "https://crm.example.com/mcp"}]`},
}

// shared are the keys that replicas need.
var shared = map[string]map[string]string{
	"sessions": {"redis": "{url: redis://127.0.0.1:6379}", "key": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},
	"replicas": {"": "{listen: 10.0.0.11:8082}"},
}

// accounts are the keys that upstreams with accounts of users need.
var accounts = map[string]map[string]string{"accounts": {"": "{sign_in: {client_id: gatehouse}}"}}

// complete adds sections and keys that a configuration lacks.
func complete(t *testing.T, cfg map[string]any, with map[string]map[string]string) {
	t.Helper()
	for section, keys := range with {
		for key, text := range keys {
			var value any
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			within, _ := cfg[section].(map[string]any)
			switch {
			case key == "" && cfg[section] == nil:
				cfg[section] = value
			case key != "" && within != nil && within[key] == nil:
				within[key] = value
			}
		}
	}
}

// TestDocsYAML loads the YAML of each page, as far as it is Gatehouse's. What begins with the line for editors is a
// whole configuration.
func TestDocsYAML(t *testing.T) {
	count, others := 0, map[string]bool{}
	for name, page := range docPages(t) {
		for i, text := range blocks(page, "yaml") {
			t.Run(fmt.Sprintf("%s#%d", name, i+1), func(t *testing.T) {
				if strings.HasPrefix(text, "- name:") {
					text = "upstreams:\n" + text
				}
				var cfg map[string]any
				if err := yaml.Unmarshal([]byte(text), &cfg); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				for _, key := range otherYAML {
					if _, found := cfg[key]; found {
						others[key] = true
						return
					}
				}
				if values, found := cfg["config"].(map[string]any); found { // of the Helm chart
					cfg = values
				}
				if whole := strings.HasPrefix(text, "# yaml-language-server: "); !whole {
					if sessions, _ := cfg["sessions"].(map[string]any); sessions["store"] == "redis" {
						complete(t, cfg, shared)
					}
					if strings.Contains(text, "type: user_oauth") {
						complete(t, cfg, accounts)
					}
					complete(t, cfg, rest)
				}
				whole, err := yaml.Marshal(cfg)
				if err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(t.TempDir(), "gatehouse.yaml")
				if err := os.WriteFile(file, whole, 0o600); err != nil {
					t.Fatal(err)
				}
				if _, err := config.ReadGiven(file); err != nil {
					t.Errorf("%v\n%s", err, whole)
				}
				count++
			})
		}
	}
	if count < 50 || len(others) != len(otherYAML) {
		t.Errorf("%d configurations were found, and other YAML with %v", count, others)
	}
}

// TestDocsParse checks each command of gatehouse in the text of each page by the command's own parser, and that each
// target of make is there. Words in capital letters stand for values, and … or ... for what is left out.
// TestDocsCommands runs those in blocks.
func TestDocsParse(t *testing.T) {
	span := regexp.MustCompile("`(?:bin/)?gatehouse( [^`A-Z…][^`]*)`")
	targets := regexp.MustCompile("(?m)(?:^|`|^\\$ )make ([a-z-]+)")
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for name, page := range docPages(t) {
		for _, m := range targets.FindAllStringSubmatch(page, -1) {
			if !strings.Contains(string(makefile), "\n"+m[1]+": ") && !strings.Contains(string(makefile), "\n"+m[1]+" ") {
				t.Errorf("%s: there is no make %s", name, m[1])
			}
		}
		for _, m := range span.FindAllStringSubmatch(strings.ReplaceAll(page, "\n", " "), -1) {
			count++
			if err := parses(words(m[1])); err != nil {
				t.Errorf("%s: gatehouse%s: %v", name, m[1], err)
			}
		}
	}
	if count < 50 || parses([]string{"serve", "--no-such-flag"}) == nil || parses([]string{"sevre"}) == nil {
		t.Errorf("%d commands were found, or wrong ones are taken", count)
	}
}

// TestDocsJSON reads the JSON of each page.
func TestDocsJSON(t *testing.T) {
	count := 0
	for name, page := range docPages(t) {
		for _, text := range blocks(page, "json") {
			d := json.NewDecoder(strings.NewReader(text))
			for d.More() {
				var value any
				if err := d.Decode(&value); err != nil {
					t.Fatalf("%s: %v\n%s", name, err, text)
				}
				count++
			}
		}
	}
	if count < 5 {
		t.Errorf("%d values were found", count)
	}
}

// words splits a command line as a shell does.
func words(text string) (list []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|[^\s'"]+`).FindAllStringSubmatch(text, -1) {
		switch {
		case m[1]+m[2] != "":
			list = append(list, m[1]+m[2])
		case m[0] != "..." && m[0] != "…":
			list = append(list, m[0])
		}
	}
	return list
}

// parses returns an error for words of a command line that the command refuses before it runs.
func parses(args []string) error {
	root := newRoot()
	root.InitDefaultHelpFlag()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") }) {
		return fmt.Errorf("no such command")
	}
	cmd.SetOut(io.Discard)
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	cmd.FParseErrWhitelist = cobra.FParseErrWhitelist{}
	if err := cmd.ParseFlags(rest); err != nil && !strings.Contains(err.Error(), "needs an argument") &&
		!strings.Contains(err.Error(), "invalid argument") {
		return err
	}
	return nil
}

var update = flag.Bool("update", false, "write docs/reference/commands.md")

// TestCommandReference holds the reference of the commands to what they print themselves.
func TestCommandReference(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	const file = "../../docs/reference/commands.md"
	var page strings.Builder
	page.WriteString("# Reference of the commands\n\nEach section is what the command prints with `--help`; " +
		"`go test ./cmd/gatehouse -run TestCommandReference -update`\nwrites this page.\n\n" +
		"Exit codes: 0 for success, 1 for a problem, 2 for an invalid command line. Some commands have others\n" +
		"for what they find out, and say so.\n")
	var write func(cmd *cobra.Command)
	write = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		if cmd.HasParent() {
			var text strings.Builder
			cmd.SetOut(&text)
			if err := cmd.Help(); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&page, "\n## %s\n\n```text\n%s\n```\n", cmd.CommandPath(), strings.TrimSpace(text.String()))
		}
		for _, sub := range cmd.Commands() {
			write(sub)
		}
	}
	root := newRoot()
	root.InitDefaultCompletionCmd("with subcommands")
	write(root)
	if *update {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != page.String() {
		t.Error("docs/reference/commands.md differs from the commands: -update writes it")
	}
}
