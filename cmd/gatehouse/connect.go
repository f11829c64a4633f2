package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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
	"github.com/gatehouse-mcp/gatehouse/internal/bridge"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

func newConnect() *cobra.Command {
	var c connector
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
			if _, err := bridge.ParseURL(args[0]); err != nil {
				return err
			}
			return work(func(cmd *cobra.Command) error { return runBridge(cmd, args[0]) })(cmd, nil)
		}
		for _, name := range []string{"stdio", "header-env", "ca-file", "authorization-server", "client-id"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s: write connect --stdio URL", name)
			}
		}
		if err := c.find(cmd, bufio.NewScanner(cmd.InOrStdin())); err != nil {
			return err
		}
		if len(args) > 0 {
			c.url = args[0]
			if err := fitsFiles(c.url); err != nil {
				return err
			}
		}
		return work(func(*cobra.Command) error { return c.run() })(cmd, nil)
	}
	cmd.Flags().BoolVar(&stdio, "stdio", false, "carry MCP between standard input and output and the URL")
	bridgeFlags(cmd)
	namedConfig(cmd, &c.config)
	cmd.Flags().StringArrayVar(&c.named, "client", nil, "`NAME` of a client; may be given several times")
	cmd.Flags().StringVar(&c.name, "name", "gatehouse", "`NAME` of the gateway in the clients")
	cmd.Flags().BoolVar(&c.undo, "undo", false, "take out what this command has written")
	cmd.Flags().BoolVar(&c.print, "print", false, "print the entries, and change nothing")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "ask nothing; entries of others stay")
	for _, name := range []string{"config", "client", "name", "undo", "print", "yes"} {
		cmd.MarkFlagsMutuallyExclusive("stdio", name)
	}
	cmd.MarkFlagsMutuallyExclusive("print", "undo")
	return cmd
}

// connector writes entries of the gateway into files of clients.
type connector struct {
	config, name     string // flags
	named            []string
	undo, yes, print bool

	in           *bufio.Scanner
	out          io.Writer
	clients      []setup.Client
	url, program string // program is the path of gatehouse
	found        bool   // something to take out
}

// find checks the flags, and finds the clients.
func (c *connector) find(cmd *cobra.Command, in *bufio.Scanner) error {
	c.in, c.out = in, cmd.OutOrStdout()
	if !setup.EntryName.MatchString(c.name) {
		return fmt.Errorf("--name %q: want letters, digits, _ and -, at most 64", c.name)
	}
	machine, err := thisMachine()
	if err != nil {
		return err
	}
	found := 0
	for _, client := range machine.Clients() {
		_, err := os.Stat(client.Mark)
		if !slices.Contains(c.named, client.ID) && (len(c.named) > 0 || err != nil && !c.undo) {
			continue
		}
		found++
		older := client
		older.File = client.Older
		uses := isThere(older.File) && !isThere(client.File)
		if c.undo || !uses {
			c.clients = append(c.clients, client)
		}
		if c.undo && older.File != "" || uses {
			c.clients = append(c.clients, older)
		}
	}
	if found < len(c.named) {
		return fmt.Errorf("--client %q: want names that gatehouse connect --help has, each once", c.named)
	}
	return nil
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// run does what the flags say with each client.
func (c *connector) run() (err error) {
	if len(c.clients) == 0 {
		return errors.New("no client was found here: name one with --client, or print what it needs with --print, too")
	}
	if c.url == "" && !c.undo {
		if c.url, err = gatewayURL(c.config); err != nil {
			return err
		}
	}
	if c.program, err = thisProgram(); err != nil {
		return err
	}
	do := c.connect
	if c.undo {
		do = c.takeOut
	}
	var errs []error
	for _, client := range c.clients {
		if _, err := bridge.ParseURL(c.url); err != nil && client.Starts() && !c.undo {
			errs = append(errs, fmt.Errorf("%s needs the bridge: %w", client, err))
			continue
		}
		if c.print {
			text, err := client.Set("", c.name, client.Entry(c.url, c.program))
			fmt.Fprintf(c.out, "%s:\n%s\n", client, text)
			errs = append(errs, err)
			continue
		}
		f, err := c.read(client)
		if c.undo && !f.copied {
			continue
		}
		if err == nil {
			err = do(f)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is not changed: %w", client, err))
		}
	}
	if c.undo && !c.found && len(errs) == 0 {
		fmt.Fprintln(c.out, "nothing of this command is left")
	}
	return errors.Join(errs...)
}

// gatewayURL returns the URL of the gateway: that of a configuration, or that of a first one.
func gatewayURL(file string) (string, error) {
	if err := findConfig(&file); errors.Is(err, errNoConfig) {
		return "http://127.0.0.1:8080/mcp", nil
	} else if err != nil {
		return "", fmt.Errorf("name the URL of the gateway: %w", err)
	}
	given, err := config.ReadGiven(file)
	if err != nil {
		return "", err
	}
	endpoint := given.Config.Summary().Endpoint
	return endpoint, fitsFiles(endpoint)
}

// fitsFiles returns an error unless a text is the URL of a gateway, without a secret.
func fitsFiles(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		strings.Contains(text, " ") || strings.Contains(text, strictyaml.StandIn) {
		return errors.New("the URL of the gateway is needed, such as gatehouse connect https://mcp.example.com/mcp")
	}
	if u.User != nil || configtext.SecretValue(text) {
		return errors.New("the URL has a secret, which is not for files: clients have their users sign in")
	}
	return nil
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

// file is that of a client.
type file struct {
	setup.Client
	now    string // what it has
	there  bool
	was    string // the entry of the gateway in it, in JSON; "" for none
	backup string // the path of a copy of what it had before this command wrote into it
	before string // what is in the copy
	copied bool   // the copy is there
	made   bool   // by this command: the copy says so
}

// noFile is the copy of a file that was not there.
const noFile = "There was no such file before gatehouse connect made it.\n"

// read reads the file of a client.
func (c *connector) read(client setup.Client) (f file, err error) {
	f.Client, f.backup = client, client.File+".before-"+c.name
	f.before, f.copied, err = contentsOf(f.backup)
	if f.made = f.before == noFile; f.made {
		f.before = ""
	}
	if err != nil {
		f.copied = true
		return f, err
	}
	if f.now, f.there, err = contentsOf(f.File); err != nil {
		return f, err
	}
	f.was, err = f.Get(f.now, c.name)
	return f, err
}

// undone returns what a file has without its entry: what it had before or, if something else has changed since, that
// with the entry of before or none.
func (c *connector) undone(f file) (text string, there bool, err error) {
	if with, err := f.Set(f.before, c.name, f.was); err == nil && with == f.now {
		return f.before, !f.made, nil
	}
	was, err := f.Get(f.before, c.name)
	if err != nil {
		return "", false, err
	}
	text, err = f.Set(f.now, c.name, was)
	return text, true, err
}

// connect writes the entry into a file.
func (c *connector) connect(f file) error {
	goal, err := f.Set(f.now, c.name, f.Entry(c.url, c.program))
	if err != nil {
		return err
	}
	before, there, question := f.now, f.there, "  write this? [Y]es, [n]o: "
	switch {
	case goal == f.now:
		fmt.Fprintf(c.out, "%s has the gateway already\n", f)
		return nil
	case f.was != "" && !f.Wrote(f.was):
		if c.yes {
			return fmt.Errorf("%s is another server there: leave --yes out to replace it, or choose a --name", c.name)
		}
		question = "  " + c.name + " is another server there: replace it? [y]es, [N]o: "
	case f.was != "" && f.copied:
		if before, there, err = c.undone(f); err != nil {
			return err
		}
	}
	if !c.agreed(f, goal, question) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.File), 0o700); err != nil {
		return err
	}
	if !there {
		before = noFile
	}
	if err := replaceFile(f.backup, before, func() error { return nil }); err != nil {
		return err
	}
	if err := changeFile(f.File, f.now, goal, true); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "  written. %s: %s\n", f.Name, f.Next)
	return nil
}

// takeOut takes the entry out of a file.
func (c *connector) takeOut(f file) error {
	c.found = true
	if f.was != "" && !f.Wrote(f.was) {
		return fmt.Errorf("%s is another server there now, which stays; what was there before is in %s", c.name,
			f.backup)
	}
	goal, there, err := c.undone(f)
	if err != nil || !c.agreed(f, goal, "  take it out? [Y]es, [n]o: ") {
		return err
	}
	if goal != f.now || f.there && !there {
		if err := changeFile(f.File, f.now, goal, there); err != nil {
			return err
		}
	}
	fmt.Fprintln(c.out, "  taken out")
	return os.Remove(f.backup)
}

// agreed shows a change and asks about it.
func (c *connector) agreed(f file, goal, question string) bool {
	fmt.Fprintf(c.out, "%s:\n%s", f, setup.Diff(f.now, goal))
	return c.yes || agreed(c.out, c.in, question)
}
