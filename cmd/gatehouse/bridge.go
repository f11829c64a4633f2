package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/internal/bridge"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// bridgeFlags adds the flags of a bridge, which runBridge reads.
func bridgeFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringToString("header-env", nil,
		"`NAME=VARIABLE`: an HTTP header and the variable with its value; may be given several times")
	f.String("ca-file", "", "`FILE` with authorities, in PEM, that may sign the server's certificate")
	f.String("authorization-server", "", "`URL` of the server at which you sign in, where several are named")
	f.String("client-id", "", "`ID` with which this client is registered there (default: it registers itself)")
}

// runBridge carries MCP between standard input and output and the server at a URL.
func runBridge(cmd *cobra.Command, url string) error {
	text := func(name string) string { return cmd.Flag(name).Value.String() }
	directory, noHome := stateHome()
	headers, noHeaders := cmd.Flags().GetStringToString("header-env")
	if err := errors.Join(noHome, noHeaders); err != nil {
		return err
	}
	cfg := bridge.Config{URL: url, Headers: make(map[string]mcp.Secret), CAFile: text("ca-file"), Directory: directory,
		AuthorizationServer: text("authorization-server"), ClientID: text("client-id"),
		Open: func(page string) { openPage(cmd, page) },
		Log:  slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for name, variable := range headers {
		value := os.Getenv(variable)
		if value == "" {
			return fmt.Errorf("--header-env: the environment has no variable %q, or it is empty", variable)
		}
		cfg.Headers[http.CanonicalHeaderKey(name)] = mcp.Secret(value)
	}
	b, err := bridge.New(cfg)
	if err != nil {
		return err
	}
	return b.Run(untilSignal(cmd.Context()), cmd.InOrStdin(), cmd.OutOrStdout())
}

// stateHome returns the directory for what programs keep of this user (XDG Base Directory Specification).
func stateHome() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gatehouse"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "gatehouse"), err
}

// openPage opens a page in the user's browser, and prints it for where there is none.
func openPage(cmd *cobra.Command, page string) {
	fmt.Fprintf(cmd.ErrOrStderr(), "gatehouse: sign in in your browser: %s\n", page)
	command := []string{"xdg-open"} // which reads BROWSER
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	browser := exec.Command(command[0], append(command[1:], page)...)
	if browser.Start() == nil {
		_ = browser.Process.Release() // it may run for as long as the user likes
	}
}
