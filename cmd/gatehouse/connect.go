package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/gateway/setup"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// connectFlags are the flags of the command.
type connectFlags struct {
	config, name              string
	clients                   []string
	undo, yes, print, project bool
}

func newConnect() *cobra.Command {
	var flags connectFlags
	var stdio bool
	cmd := &cobra.Command{
		Use:   "connect [URL]",
		Short: "Write the gateway into the files of your clients, or take it out",
		Long: "Shows for each client on this machine how its file changes, and asks before it\n" +
			"writes the entry of the gateway. What was there before is kept: --undo brings it\n" +
			"back byte for byte or, if the file has changed since, takes out the entry alone.\n" +
			"The URL is the argument, that of the configuration, or that of a gateway on this\n" +
			"machine. No token is written: clients have their users sign in.\n\n" +
			"Clients: claude-code, claude-desktop, cursor, vscode, windsurf, gemini, codex,\n" +
			"copilot, lmstudio, zed, opencode, cline, cline-cli, kiro, amazon-q, continue,\n" +
			"goose.\n\n" +
			"With --stdio it is what a client starts that cannot connect to URLs: it carries\n" +
			"MCP between standard input and output and the URL (docs/bridge.md).",
		Example: "  gatehouse connect\n  gatehouse connect https://mcp.example.com/mcp --client cursor\n" +
			"  gatehouse connect --project --client vscode\n  gatehouse connect --undo\n" +
			"  gatehouse connect --stdio http://127.0.0.1:8080/mcp",
		Args: needs("[URL]"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if stdio && len(args) > 0 {
			return work(func(cmd *cobra.Command) error { return runBridge(cmd, args[0]) })(cmd, nil)
		}
		for _, name := range []string{"stdio", "key-env", "header-env", "ca-file", "authorization-server", "client-id",
			"client-secret-file", "redirect-port"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s: write connect --stdio URL", name)
			}
		}
		c, err := newConnector(cmd, bufio.NewScanner(cmd.InOrStdin()), flags)
		if err != nil {
			return err
		}
		return work(func(*cobra.Command) error { return c.run(args) })(cmd, nil)
	}
	cmd.Flags().BoolVar(&stdio, "stdio", false, "carry MCP between standard input and output and the URL")
	bridgeFlags(cmd)
	namedConfig(cmd, &flags.config)
	cmd.Flags().StringArrayVar(&flags.clients, "client", nil, "`NAME` of a client; may be given several times")
	cmd.Flags().StringVar(&flags.name, "name", "gatehouse", "`NAME` of the gateway in the clients")
	cmd.Flags().BoolVar(&flags.project, "project", false, "write the files of this directory's project")
	cmd.Flags().BoolVar(&flags.undo, "undo", false, "take out what this command has written")
	cmd.Flags().BoolVar(&flags.print, "print", false, "print the entries, and change nothing")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "ask nothing; entries of others stay")
	for _, name := range []string{"config", "client", "name", "project", "undo", "print", "yes"} {
		cmd.MarkFlagsMutuallyExclusive("stdio", name)
	}
	return cmd
}

// connector writes entries of the gateway into files of clients.
type connector struct {
	connectFlags
	cmd          *cobra.Command
	out          io.Writer
	in           *bufio.Scanner
	url, program string // program is the path of gatehouse
	targets      []target
	found        bool // something to take out
}

// target is a client with one of its files.
type target struct {
	setup.Client
	path string
}

// String returns both as people read them.
func (t target) String() string {
	shown := t.path
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(shown, home+string(filepath.Separator)) {
		shown = "~" + shown[len(home):]
	}
	return t.Name + " (" + shown + ")"
}

// newConnector checks the flags, and finds the clients.
func newConnector(cmd *cobra.Command, in *bufio.Scanner, flags connectFlags) (*connector, error) {
	c := &connector{connectFlags: flags, cmd: cmd, out: cmd.OutOrStdout(), in: in}
	if !setup.EntryName.MatchString(flags.name) {
		return nil, fmt.Errorf("--name %q: want letters, digits, _ and -, at most 64", flags.name)
	}
	machine, err := thisMachine()
	if err != nil {
		return nil, err
	}
	wanted := slices.Clone(flags.clients)
	for _, one := range machine.Clients() {
		file := one.File
		if flags.project {
			file = one.Project
		}
		_, err := os.Stat(filepath.FromSlash(one.Mark))
		named := slices.Contains(flags.clients, one.ID)
		wanted = slices.DeleteFunc(wanted, func(id string) bool { return id == one.ID })
		if !named && (len(flags.clients) > 0 || file == "" || err != nil && !flags.undo) {
			continue
		}
		if file == "" {
			return nil, fmt.Errorf("--project: %s has no file for a project", one.Name)
		}
		if file, err = filepath.Abs(filepath.FromSlash(file)); err != nil {
			return nil, err
		}
		c.targets = append(c.targets, target{one, file})
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("--client %q: no such client: gatehouse connect --help has their names", wanted[0])
	}
	return c, nil
}

// run does what the flags say with each client.
func (c *connector) run(args []string) (err error) {
	if len(c.targets) == 0 {
		return errors.New("no client was found here: name one with --client, or print what it needs with --print, too")
	}
	if c.url, err = gatewayURL(c.config, args); err != nil && !c.undo {
		return err
	}
	if c.program, err = os.Executable(); err != nil {
		return err
	}
	refused, do := 0, c.connect
	switch {
	case c.print:
		do = c.show
	case c.undo:
		do = c.takeOut
	}
	for _, t := range c.targets {
		if err := do(t); err != nil {
			fmt.Fprintf(c.out, "%s is not changed: %v\n", t, err)
			refused++
		}
	}
	if c.undo && !c.found && refused == 0 {
		fmt.Fprintln(c.out, "nothing of this command is left")
	}
	if refused > 0 {
		return fmt.Errorf("%s not changed", count(refused, "file was", "files were"))
	}
	return nil
}

// gatewayURL returns the URL of the gateway: the argument, that of a configuration, or that of a first one.
func gatewayURL(file string, args []string) (string, error) {
	if len(args) == 0 {
		if findConfig(&file) != nil {
			return "http://127.0.0.1:8080/mcp", nil
		}
		given, err := config.ReadGiven(file)
		if err != nil {
			return "", err
		}
		args = []string{given.Config.Summary().Endpoint}
	}
	u, err := url.Parse(args[0])
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		strings.Contains(args[0], " ") || strings.Contains(args[0], strictyaml.StandIn) {
		return "", errors.New("the URL of the gateway is needed, such as gatehouse connect https://mcp.example.com/mcp")
	}
	if u.User != nil || configtext.SecretValue(args[0]) {
		return "", errors.New("the URL has a secret, which is not for files: clients have their users sign in")
	}
	return args[0], nil
}

// show prints the entry for a client.
func (c *connector) show(t target) error {
	text, err := t.Set("", c.name, t.Entry(c.name, c.url, c.program))
	fmt.Fprintf(c.out, "%s:\n%s\n", t, text)
	return err
}

// look reads the file of a client, its entry of the gateway, "" for none, and what is kept of it.
func (c *connector) look(t target) (now contents, entry string, k kept, err error) {
	if now, err = readContents(t.path); err == nil {
		if entry, err = t.Get(now.text, c.name); err == nil {
			k, err = findKept(t, c.name)
		}
	}
	return now, entry, k, err
}

// connect writes the entry into the file of a client.
func (c *connector) connect(t target) error {
	now, was, kept, err := c.look(t)
	if err != nil {
		return err
	}
	entry, question := t.Entry(c.name, c.url, c.program), "  write this? [Y]es, [n]o: "
	before, command := now, []string(nil)
	switch {
	case was == setup.Canonical(entry):
		fmt.Fprintf(c.out, "%s has the gateway already\n", t)
		return nil
	case was == "":
		command = c.own(t, t.Add)
	case kept.wrote(t, c.name, was):
		if before, err = kept.undone(t, c.name, now); err != nil {
			return err
		}
	case c.yes:
		return fmt.Errorf("%s is another server there: leave --yes out to replace it, or choose a --name", c.name)
	default:
		question = "  " + c.name + " is another server there: replace it? [y]es, [N]o: "
	}
	goal := contents{there: true}
	if goal.text, err = t.Set(now.text, c.name, entry); err != nil || !c.agreed(t, now, goal, command, question) {
		return err
	}
	old := kept
	kept.before, kept.after = before, goal
	if err := kept.save(); err != nil {
		return err
	}
	if kept.after, err = c.change(t, now, goal, command); err != nil {
		return errors.Join(err, old.save())
	}
	fmt.Fprintf(c.out, "  written. %s: %s\n", t.Name, t.Next)
	return kept.save()
}

// takeOut brings back what the file of a client had before.
func (c *connector) takeOut(t target) error {
	now, was, kept, err := c.look(t)
	if err != nil || !kept.after.there {
		return err
	}
	c.found = true
	if was != "" && !kept.wrote(t, c.name, was) {
		return fmt.Errorf("%s is another server there now, which is left alone; what was there before is in %s", c.name,
			kept.dir)
	}
	goal, err := kept.undone(t, c.name, now)
	if err != nil {
		return fmt.Errorf("%w; what it had before is in %s", err, kept.dir)
	}
	said, command := "is as it was before", []string(nil)
	if now != kept.after && now.there {
		said = "has changed since: the entry alone is taken out"
		if back, err := t.Get(goal.text, c.name); err == nil && back == "" && was != "" {
			command = c.own(t, t.Remove)
		}
	}
	if goal != now {
		if !c.agreed(t, now, goal, command, "  take it out? [Y]es, [n]o: ") {
			return nil
		}
		if _, err := c.change(t, now, goal, command); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.out, "  %s %s\n", t, said)
	return os.RemoveAll(kept.dir)
}

// agreed shows a change and asks about it.
func (c *connector) agreed(t target, now, goal contents, command []string, question string) bool {
	fmt.Fprintf(c.out, "%s:\n%s", t, setup.Diff(now.text, goal.text))
	if command != nil {
		fmt.Fprintf(c.out, "  by %s\n", strings.Join(command, " "))
	}
	return c.yes || agreed(c.out, c.in, question)
}

// own returns the words of a client's own command, if the client rewrites its file while it runs and the command is
// there; else nil. Batch files, which commands are on Windows, read their arguments in ways of their own.
func (c *connector) own(t target, command string) []string {
	words := strings.Fields(command)
	if len(words) == 0 || t.Remove == "" || c.project || runtime.GOOS == "windows" {
		return nil
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return nil
	}
	for i, word := range words {
		words[i] = strings.NewReplacer("NAME", c.name, "URL", c.url).Replace(word)
	}
	return words
}

// change changes the file of a client, by a command if that is not nil, and returns what is in it then.
func (c *connector) change(t target, now, goal contents, command []string) (contents, error) {
	if command == nil {
		return goal, writeContents(t.path, now, goal)
	}
	ctx, cancel := context.WithTimeout(c.cmd.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	if err != nil {
		return now, fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, bytes.TrimSpace(said))
	}
	is, err := readContents(t.path)
	want, errWant := t.Get(goal.text, c.name)
	got, errGot := t.Get(is.text, c.name)
	if err = errors.Join(err, errWant, errGot); err == nil && got != want && (got == "" || want == "") {
		err = fmt.Errorf("%s has not changed this file", strings.Join(command, " "))
	}
	return is, err
}

// kept is what was in a client's file before the gateway was written into it, and what was written. It is in a
// directory for the user alone.
type kept struct {
	dir           string
	before, after contents // after is not there if nothing is kept
}

// findKept finds what is kept of a file and an entry.
func findKept(t target, name string) (k kept, err error) {
	dir, err := stateHome()
	if err != nil {
		return k, err
	}
	sum := sha256.Sum256([]byte(t.path + "\x00" + name))
	k.dir = filepath.Join(dir, "connect", t.ID+"-"+hex.EncodeToString(sum[:6]))
	k.before, err = readContents(filepath.Join(k.dir, "before"))
	if err == nil {
		k.after, err = readContents(filepath.Join(k.dir, "after"))
	}
	return k, err
}

// wrote reports whether an entry is as this command has written it.
func (k kept) wrote(t target, name, entry string) bool {
	written, err := t.Get(k.after.text, name)
	return k.after.there && err == nil && written == entry
}

// undone returns what the file had before. If it has changed since, it returns what it has, with the entry of before
// or without any.
func (k kept) undone(t target, name string, now contents) (contents, error) {
	if now == k.after || !now.there {
		return k.before, nil
	}
	was, err := t.Get(k.before.text, name)
	if err != nil {
		return now, err
	}
	now.text, err = t.Set(now.text, name, was)
	return now, err
}

// save keeps what was in a file, and what is written into it.
func (k kept) save() error {
	if !k.after.there {
		return os.RemoveAll(k.dir)
	}
	fresh := k.dir + ".new" // what is kept already goes when this is whole
	err := errors.Join(os.RemoveAll(fresh), os.MkdirAll(fresh, 0o700))
	if err == nil && k.before.there {
		err = writeFresh(filepath.Join(fresh, "before"), k.before.text, false)
	}
	if err == nil {
		err = writeFresh(filepath.Join(fresh, "after"), k.after.text, false)
	}
	if err == nil {
		err = os.RemoveAll(k.dir)
	}
	if err == nil {
		err = os.Rename(fresh, k.dir)
	}
	return err
}
