package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/gateway/setup"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
)

// initFlags are the flags of the command.
type initFlags struct {
	config  string
	from    []string
	force   bool
	yes     bool
	noProbe bool
	connect bool
	envFile string
	timeout time.Duration
}

func newInit() *cobra.Command {
	var flags initFlags
	cmd := &cobra.Command{
		Use:   "init [URL... | COMMAND...]",
		Short: "Make a first configuration of what your clients have",
		Long: "Writes a configuration with the servers that you have already: those in the files of Claude,\n" +
			"Cursor, VS Code, Windsurf, Codex and others, which it finds and asks about, those of --from, or the\n" +
			"URLs or the one command in its arguments. Secrets become references to the environment; they are\n" +
			"written to a file of their own, for you alone, if you agree or with --env-file. Then it tries each\n" +
			"server, and goes on to connect the clients.",
		Example: "  gatehouse init\n  gatehouse init --from ~/.cursor/mcp.json --yes\n  gatehouse init https://mcp.example.com/mcp\n  gatehouse init -- npx -y @modelcontextprotocol/server-filesystem .",
		RunE: func(cmd *cobra.Command, args []string) error {
			return work(func(cmd *cobra.Command) error { return runInit(cmd, flags, args) })(cmd, nil)
		},
	}
	cmd.Flags().StringVarP(&flags.config, "config", "c", "gatehouse.yaml", "`FILE` to write")
	cmd.Flags().StringArrayVar(&flags.from, "from", nil,
		"`FILE` of a client to read; may be given several times, - is standard input")
	cmd.Flags().BoolVar(&flags.force, "force", false, "overwrite the file if it is there")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "take every file of yours that is found, and ask nothing")
	cmd.Flags().StringVar(&flags.envFile, "env-file", "",
		"`FILE` to write the secrets to that the clients' files have, for you alone")
	cmd.Flags().BoolVar(&flags.noProbe, "no-probe", false, "do not try the servers")
	cmd.Flags().BoolVar(&flags.connect, "connect", false, "write the gateway into your clients' files, also with --yes")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 90*time.Second, "how long to wait for the servers")
	return cmd
}

func runInit(cmd *cobra.Command, flags initFlags, args []string) error {
	for _, file := range []string{flags.config, flags.envFile} {
		if _, err := os.Lstat(file); err == nil && !flags.force {
			return fmt.Errorf("%s is there already: --force overwrites it, or name another file", file)
		}
	}
	out := cmd.OutOrStdout()
	in := bufio.NewScanner(cmd.InOrStdin())
	draft, taken, err := gather(cmd, in, flags, args)
	if err != nil {
		return err
	}
	if secrets := len(draft.Values()); secrets > 0 && flags.envFile == "" && !flags.yes {
		file := filepath.Join(filepath.Dir(flags.config), "gatehouse.env")
		if _, err := os.Lstat(file); err != nil && agreed(out, in, fmt.Sprintf(
			"Write the %s to %s, for you alone? [Y]es, [n]o: ", count(secrets, "secret", "secrets"), file)) {
			flags.envFile = file
		}
	}
	text, err := draft.Config()
	if err != nil {
		return err
	}
	if err := writeFresh(flags.config, text, flags.force); err != nil {
		return err
	}
	if flags.envFile != "" {
		if err := writeFresh(flags.envFile, draft.Environment(), flags.force); err != nil {
			return err
		}
		fmt.Fprintf(out, "written: %s, with the secrets of your clients' files\n", flags.envFile)
	}
	fmt.Fprintf(out, "written: %s, with %s\n", flags.config, count(len(draft.Servers), "server", "servers"))
	for _, n := range draft.Notes {
		if n.Server != "" {
			n.Text = n.Server + ": " + n.Text
		}
		fmt.Fprintf(out, "  note: %s\n", n.Text)
	}
	found, err := probeDraft(cmd, flags, draft)
	if err != nil {
		return err
	}
	if found {
		if text, err = draft.Config(); err == nil {
			err = writeFresh(flags.config, text, true)
		}
		if err != nil {
			return err
		}
	}
	if err := printNext(out, flags, draft, taken); err != nil {
		return err
	}
	return connectClients(cmd, in, flags)
}

// gather reads all sources of servers. taken has a line for each client's file, with its servers.
func gather(cmd *cobra.Command, in *bufio.Scanner, flags initFlags, args []string) (all *setup.Draft, taken []string,
	err error) {
	all = &setup.Draft{}
	dir, _ := os.Getwd() // where it is not known, the servers of all directories count
	if len(args) == 1 && strings.HasSuffix(args[0], ".json") {
		flags.from, args = append(flags.from, args...), nil
	}
	for _, file := range flags.from {
		text, err := readClient(cmd, file)
		if err == nil {
			err = all.Read(text, dir)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	switch {
	case len(args) > 0:
		return all, nil, all.Arguments(args)
	case len(flags.from) > 0:
		return all, nil, nil
	}
	taken, err = findFiles(cmd, in, flags, all, dir)
	return all, taken, err
}

func readClient(cmd *cobra.Command, file string) (string, error) {
	if file == "-" {
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), setup.MostBytes+1))
		return string(text), err
	}
	text, _, err := contentsOf(file)
	if err == nil && text == "" {
		err = errors.New("there is no such file, or it is empty")
	}
	return text, err
}

// thisMachine says where the files of clients are here.
func thisMachine() (setup.Machine, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return setup.Machine{}, err
	}
	config, err := os.UserConfigDir()
	return setup.Machine{System: runtime.GOOS, Home: filepath.ToSlash(home), Config: filepath.ToSlash(config),
		Env: func(name string) string { return filepath.ToSlash(os.Getenv(name)) }}, err
}

// findFiles asks the user about each client's file on this machine. It returns a line for each that it took.
func findFiles(cmd *cobra.Command, in *bufio.Scanner, flags initFlags, all *setup.Draft, dir string) (taken []string,
	err error) {
	machine, err := thisMachine()
	if err != nil {
		return nil, err
	}
	out := cmd.OutOrStdout()
	for _, c := range machine.Clients() {
		files := []string{c.Project, c.File}
		if c.Older != "" {
			files = append(files, c.Older)
		}
		if project, _ := filepath.Abs(c.Project); project == filepath.FromSlash(c.File) { // in the home directory
			files = files[1:]
		}
		for _, path := range files {
			text, _, err := contentsOf(path)
			d := &setup.Draft{}
			if err == nil && text != "" {
				err = d.Read(text, dir)
			}
			if err != nil && !errors.Is(err, setup.ErrNothing) {
				fmt.Fprintf(out, "%s (%s) was not read: %v\n", c.Name, path, err)
			}
			if len(d.Servers) == 0 {
				continue
			}
			var names []string
			for _, s := range d.Servers {
				names = append(names, s.Name)
			}
			fmt.Fprintf(out, "%s (%s): %s\n", c.Name, path, strings.Join(names, ", "))
			for _, s := range d.Servers { // another person may have written the file of a project
				if len(s.Command) > 0 && !s.Off {
					fmt.Fprintf(out, "  %s runs %q\n", s.Name, s.Command)
				}
			}
			if flags.yes && path == c.Project {
				fmt.Fprintln(out,
					"  --yes does not take those of a project, which others may have written: name the file with --from")
				continue
			}
			if flags.yes || agreed(out, in, "  take them? [Y]es, [n]o: ") {
				if err := all.Read(text, dir); err != nil {
					return nil, err
				}
				taken = append(taken, path+": "+strings.Join(names, ", "))
			}
		}
	}
	if len(all.Servers) == 0 && !flags.yes {
		fmt.Fprint(out, "The URL of a server, or the command that starts it: ")
		if in.Scan() {
			return nil, all.Read(in.Text(), "")
		}
	}
	if len(all.Servers) == 0 {
		return nil, errors.New("no servers were found: name a client's file (--from FILE), a URL, or a command: " +
			"gatehouse init -- npx -y @modelcontextprotocol/server-filesystem /srv/docs")
	}
	return taken, nil
}

// agreed asks a question, with the default answer in capitals. The answer is no at the end of the input.
func agreed(out io.Writer, in *bufio.Scanner, question string) bool {
	fmt.Fprint(out, question)
	if !in.Scan() {
		fmt.Fprintln(out)
		return false
	}
	answer := strings.ToLower(strings.TrimSpace(in.Text()))
	return strings.HasPrefix(answer, "y") || answer == "" && strings.Contains(question, "[Y]")
}

// writeFresh writes a file for its owner alone.
func writeFresh(path, text string, over bool) error {
	flag := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if over {
		flag = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: --force overwrites it", path)
	}
	if err != nil {
		return err
	}
	err = f.Chmod(0o600) // also of a file that was there
	if err == nil {
		_, err = f.WriteString(text)
	}
	return errors.Join(err, f.Close())
}

// mostFile bounds the file of a client, in bytes: that of Claude Code can have some megabytes.
const mostFile = 64 << 20

// contentsOf returns what is in a file, and whether it is there.
func contentsOf(path string) (text string, there bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostFile) {
		err = errors.New("it is no regular file, or too large")
	}
	if err != nil {
		return "", false, err
	}
	raw, err := os.ReadFile(path)
	return string(raw), true, err
}

// changeFile changes a file from what it has to something else, or removes it unless it shall be there.
func changeFile(path, now, goal string, there bool) error {
	still := func() error {
		again, _, err := contentsOf(path)
		if err == nil && again != now {
			err = errors.New("another program has changed it just now: try again")
		}
		return err
	}
	if !there {
		if err := still(); err != nil {
			return err
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		return os.Remove(target)
	}
	return replaceFile(path, goal, still)
}

// replaceFile replaces a file as a whole, unless still has an error. A new one is for the user alone.
func replaceFile(path, text string, still func() error) error {
	f, err := os.OpenFile(path, os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	return configtext.Replace(path, []byte(text), still)
}

// probeDraft tries the servers, with the values that the clients' files have. It prints that a server
// does not work, without an error: the file is written. found reports a changed draft: some server
// wants its user to sign in, or does not.
func probeDraft(cmd *cobra.Command, flags initFlags, draft *setup.Draft) (found bool, err error) {
	out, values := cmd.OutOrStdout(), draft.Values()
	if flags.noProbe {
		return false, nil
	}
	text, err := draft.Open().Config()
	if err != nil {
		return false, err
	}
	env := func(name string) (string, bool) {
		if value, has := os.LookupEnv(name); has {
			return value, has
		}
		value, has := values[name]
		return value, has
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), flags.timeout)
	defer cancel()
	reports, doubts, err := trial.Text(ctx, inspector(cmd.ErrOrStderr()), flags.config, []byte(text), "", env)
	if bad, ok := errors.AsType[*config.Error](err); ok {
		fmt.Fprintln(out, "\nThe servers were not tried:")
		for _, p := range bad.Problems {
			fmt.Fprintf(out, "  %s\n", p)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i, r := range reports {
		if r.Login || r.Error == "" {
			found = draft.SignIn(r.Name, r.Login) || found
		}
		if r.Login && draft.SignsIn(r.Name) {
			reports[i].State, reports[i].Error = "you sign in there", ""
			reports[i].Hint = "when the gateway runs, open " + signInAt + " in a browser"
		}
	}
	for _, d := range doubts {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", d)
	}
	if err := printReports(out, reports); err != nil {
		fmt.Fprintf(out, "\n%s. Correct %s, and try again: gatehouse check --config %s --connect\n", err,
			flags.config, flags.config)
	}
	return found, nil
}

// signInAt is the page where the user of a first configuration signs in at servers.
const signInAt = "http://127.0.0.1:8080/account"

// printNext prints the next steps.
func printNext(out io.Writer, flags initFlags, draft *setup.Draft, taken []string) error {
	values := draft.Values()
	var missing []setup.Variable
	for _, v := range draft.Variables {
		if flags.envFile == "" || values[v.Name] == "" {
			missing = append(missing, v)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintln(out,
			"\nSet these before you start the gateway. --env-file writes what your clients' files have of them:")
		for _, v := range missing {
			fmt.Fprintf(out, "  export %s=...   # %s\n", v.Name, v.For)
		}
	}
	fmt.Fprintln(out, "\nNext:")
	if flags.envFile != "" {
		fmt.Fprintf(out, "  set -a; . %s; set +a\n", sourced(flags.envFile))
	}
	_, err := fmt.Fprintf(out, "  gatehouse serve --config %[1]s\n"+
		"  gatehouse connect --config %[1]s   # writes it into the files of your clients\n"+
		"Then http://127.0.0.1:9090/console/first-run shows your first call.\n", flags.config)
	if len(taken) > 0 {
		_, err = fmt.Fprintf(out, "When it works, take out what your clients then have twice:\n  %s\n",
			strings.Join(taken, "\n  "))
	}
	return err
}

// connectClients offers to write the gateway into the files of the clients.
func connectClients(cmd *cobra.Command, in *bufio.Scanner, flags initFlags) error {
	out := cmd.OutOrStdout()
	c := connector{config: flags.config, name: "gatehouse", yes: flags.yes}
	if err := c.find(cmd, in); err != nil || len(c.clients) == 0 {
		return err
	}
	if !flags.connect && (flags.yes || !agreed(out, in, "\nSee what it changes now? [Y]es, [n]o: ")) {
		return nil
	}
	return c.run()
}

// sourced returns the path of a file as a shell reads it without searching for it.
func sourced(file string) string {
	if strings.ContainsRune(filepath.ToSlash(file), '/') {
		return file
	}
	return "./" + file
}
