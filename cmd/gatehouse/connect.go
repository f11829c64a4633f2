package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/gateway/setup"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// connectFlags are the flags of the command.
type connectFlags struct {
	config, name     string
	clients          []string
	undo, yes, print bool
}

func newConnect() *cobra.Command {
	var flags connectFlags
	var stdio bool
	cmd := &cobra.Command{
		Use:   "connect [URL]",
		Short: "Write the gateway into the files of your clients, or take it out",
		Long: "Shows for each client on this machine how its file changes, and asks before it\n" +
			"writes the entry of the gateway. A copy of what was there before stays beside it:\n" +
			"--undo brings that back byte for byte or, if the file has changed since, takes out\n" +
			"the entry alone.\n" +
			"The URL is the argument, that of the configuration, or that of a gateway on this\n" +
			"machine. No token is written: clients have their users sign in.\n\n" +
			"Clients: claude-code, claude-desktop, cursor, vscode, windsurf, gemini, codex,\n" +
			"copilot, lmstudio, zed, opencode, cline, cline-cli, kiro, amazon-q, continue.\n\n" +
			"With --stdio it is what a client starts that cannot connect to URLs: it carries\n" +
			"MCP between standard input and output and the URL (docs/bridge.md).",
		Example: "  gatehouse connect\n  gatehouse connect https://mcp.example.com/mcp --client cursor\n" +
			"  gatehouse connect --print --client vscode\n  gatehouse connect --undo\n" +
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
	cmd.Flags().BoolVar(&flags.undo, "undo", false, "take out what this command has written")
	cmd.Flags().BoolVar(&flags.print, "print", false, "print the entries, and change nothing")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "ask nothing; entries of others stay")
	for _, name := range []string{"config", "client", "name", "undo", "print", "yes"} {
		cmd.MarkFlagsMutuallyExclusive("stdio", name)
	}
	return cmd
}

// connector writes entries of the gateway into files of clients.
type connector struct {
	connectFlags
	out          io.Writer
	in           *bufio.Scanner
	url, program string // program is the path of gatehouse
	targets      []setup.Client
	found        bool // something to take out
}

// newConnector checks the flags, and finds the clients.
func newConnector(cmd *cobra.Command, in *bufio.Scanner, flags connectFlags) (*connector, error) {
	c := &connector{connectFlags: flags, out: cmd.OutOrStdout(), in: in}
	if !setup.EntryName.MatchString(flags.name) {
		return nil, fmt.Errorf("--name %q: want letters, digits, _ and -, at most 64", flags.name)
	}
	machine, err := thisMachine()
	if err != nil {
		return nil, err
	}
	all := machine.Clients()
	for _, id := range flags.clients {
		if !slices.ContainsFunc(all, func(t setup.Client) bool { return t.ID == id }) {
			return nil, fmt.Errorf("--client %q: no such client: gatehouse connect --help has their names", id)
		}
	}
	for _, t := range all {
		_, err := os.Stat(t.Mark)
		if slices.Contains(flags.clients, t.ID) || len(flags.clients) == 0 && (err == nil || flags.undo) {
			c.targets = append(c.targets, t)
		}
	}
	return c, nil
}

// run does what the flags say with each client.
func (c *connector) run(args []string) (err error) {
	if len(c.targets) == 0 {
		return errors.New("no client was found here: name one with --client, or print what it needs with --print, too")
	}
	if c.url, err = gatewayURL(c.config, args); err != nil {
		return err
	}
	if c.program, err = thisProgram(); err != nil {
		return err
	}
	do := c.connect
	switch {
	case c.print:
		do = c.show
	case c.undo:
		do = c.takeOut
	}
	var errs []error
	for _, t := range c.targets {
		if err := do(t); err != nil {
			errs = append(errs, fmt.Errorf("%s is not changed: %w", t, err))
		}
	}
	if c.undo && !c.found && len(errs) == 0 {
		fmt.Fprintln(c.out, "nothing of this command is left")
	}
	return errors.Join(errs...)
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

// thisProgram returns the path by which this program is found, which outlasts its upgrades, or else its own.
func thisProgram() (string, error) {
	own, err := os.Executable()
	found, _ := exec.LookPath("gatehouse")
	ownFile, _ := os.Stat(own)
	foundFile, _ := os.Stat(found) // nil, as none is the same, if it is not found
	if os.SameFile(ownFile, foundFile) {
		return filepath.Abs(found)
	}
	return own, err
}

// show prints the entry for a client.
func (c *connector) show(t setup.Client) error {
	text, err := t.Set("", c.name, t.Entry(c.url, c.program))
	fmt.Fprintf(c.out, "%s:\n%s\n", t, text)
	return err
}

// file is that of a client.
type file struct {
	now, backup contents // backup is what it had before this command wrote into it; it stands beside it
	was         string   // the entry that it has, in JSON; "" for none
}

// backup returns the path of a backup.
func (c *connector) backup(t setup.Client) string { return t.File + ".before-" + c.name }

// look reads the file of a client.
func (c *connector) look(t setup.Client) (f file, err error) {
	if f.now, err = readContents(t.File, mostFile); err != nil {
		return f, err
	}
	if f.backup, err = readContents(c.backup(t), mostFile); err != nil {
		return f, err
	}
	f.was, err = t.Get(f.now.Text, c.name)
	return f, err
}

// connected returns a file with the entry of the gateway.
func (c *connector) connected(t setup.Client, f file) (contents, error) {
	text, err := t.Set(f.now.Text, c.name, t.Entry(c.url, c.program))
	return contents{text, true}, err
}

// undone returns what the file of a client has without its entry: what it had before or, if something else has changed
// since, that with the entry of before or none.
func (c *connector) undone(t setup.Client, f file) (contents, error) {
	if with, err := t.Set(f.backup.Text, c.name, f.was); err == nil && with == f.now.Text {
		return contents{f.backup.Text, f.backup.Text != ""}, nil
	}
	before, err := t.Get(f.backup.Text, c.name)
	if err == nil {
		f.now.Text, err = t.Set(f.now.Text, c.name, before)
	}
	return f.now, err
}

// connect writes the entry into the file of a client.
func (c *connector) connect(t setup.Client) error {
	f, err := c.look(t)
	if err != nil {
		return err
	}
	goal, err := c.connected(t, f)
	if err != nil {
		return err
	}
	before, question := f.now, "  write this? [Y]es, [n]o: "
	switch {
	case goal == f.now:
		fmt.Fprintf(c.out, "%s has the gateway already\n", t)
		return nil
	case f.was != "" && c.yes:
		return fmt.Errorf("%s is another server there: leave --yes out to replace it, or choose a --name", c.name)
	case f.was != "":
		question = "  " + c.name + " is another server there: replace it? [y]es, [N]o: "
	}
	if !c.agreed(t, f.now, goal, question) {
		return nil
	}
	if f.was != "" && f.backup.There {
		if before, err = c.undone(t, f); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(t.File), 0o700); err != nil {
		return err
	}
	if err := writeFresh(c.backup(t), before.Text, true); err != nil {
		return err
	}
	if err := writeContents(t.File, f.now, goal); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "  written. %s: %s\n", t.Name, t.Next)
	return nil
}

// takeOut takes the entry out of the file of a client.
func (c *connector) takeOut(t setup.Client) error {
	f, err := c.look(t)
	if err != nil || f.was == "" {
		return err
	}
	c.found = true
	if wanted, err := c.connected(t, f); c.yes && (err != nil || wanted != f.now) {
		return fmt.Errorf("%s is not the entry for %s there: leave --yes out, or give its URL", c.name, c.url)
	}
	goal, err := c.undone(t, f)
	if err != nil || !c.agreed(t, f.now, goal, "  take it out? [Y]es, [n]o: ") {
		return err
	}
	if err := writeContents(t.File, f.now, goal); err != nil {
		return err
	}
	if goal.Text == f.backup.Text {
		fmt.Fprintf(c.out, "  %s is as it was before\n", t)
	} else {
		fmt.Fprintf(c.out, "  %s has changed since: the entry alone is taken out\n", t)
	}
	if err := os.Remove(c.backup(t)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// agreed shows a change and asks about it.
func (c *connector) agreed(t setup.Client, now, goal contents, question string) bool {
	fmt.Fprintf(c.out, "%s:\n%s", t, setup.Diff(now.Text, goal.Text))
	return c.yes || agreed(c.out, c.in, question)
}
