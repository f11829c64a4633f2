package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// program is this test as the command gatehouse, and a configuration for it.
func program(t *testing.T, config string) (command, file string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	command, file = filepath.Join(dir, "gatehouse"), filepath.Join(dir, "gatehouse.yaml")
	config += "upstreams: [{name: none, url: 'http://127.0.0.1:1/mcp'}]\n"
	if err := errors.Join(os.Symlink(self, command), os.WriteFile(file, []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	return command, file
}

// getOver makes a request over a connection to an address.
func getOver(t *testing.T, network, address, path string) (status int, body string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get("http://localhost" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// ended waits for a process, and returns its error.
func ended(t *testing.T, cmd *exec.Cmd) error {
	t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	return cmd.Wait()
}

// activator returns systemd's program that passes sockets.
func activator(t *testing.T) string {
	t.Helper()
	activate, err := exec.LookPath("systemd-socket-activate")
	if err != nil {
		// Systems without systemd have no such program; it runs wherever the package systemd is installed.
		t.Skip("systemd-socket-activate is not installed")
	}
	return activate
}

// TestSocketActivation: with systemd's own program, the first connection starts the gateway, which serves at
// the sockets that it is passed.
func TestSocketActivation(t *testing.T) {
	activate := activator(t)
	for name, tt := range map[string]struct{ config, names, want string }{
		"two by name":  {"listen: 'systemd:mcp'\nadmin: {listen: 'systemd:admin'}\n", "mcp:admin", ""},
		"one too many": {"listen: 'systemd:mcp'\n", "mcp:admin", "systemd has passed admin, too"},
		"two as one":   {"listen: systemd\n", "mcp:admin", "write systemd:NAME with one of mcp, admin"},
		"of no name":   {"listen: 'systemd:web'\n", "mcp:admin", `no socket "web", but mcp, admin`},
	} {
		t.Run(name, func(t *testing.T) {
			command, file := program(t, tt.config)
			mcp, admin := filepath.Join(filepath.Dir(file), "mcp.sock"), filepath.Join(filepath.Dir(file), "admin.sock")
			log := &mcptest.Log{}
			cmd := exec.Command(activate, "-l", mcp, "-l", admin, "--fdname="+tt.names, command, "serve", "-c", file)
			cmd.Stderr = log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for !strings.Contains(log.String(), "admin.sock") { // it listens
				if t.Context().Err() != nil {
					t.Fatal(log.String())
				}
			}
			if tt.want != "" {
				conn, err := net.Dial("unix", mcp)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := ended(t, cmd); err == nil || !strings.Contains(log.String(), tt.want) {
					t.Errorf("error %v, log %s", err, log)
				}
				return
			}
			if status, body := getOver(t, "unix", mcp, "/nothing"); status != http.StatusNotFound {
				t.Errorf("%d %s", status, body)
			}
			if status, body := getOver(t, "unix", admin, "/healthz"); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := ended(t, cmd); err != nil {
				t.Errorf("%v, log %s", err, log)
			}
			if _, err := os.Stat(mcp); err != nil {
				t.Errorf("the gateway has removed a socket of systemd: %v", err)
			}
		})
	}
}

// TestSocketNeedsAuthentication: a passed socket that other machines may reach needs authentication.
func TestSocketNeedsAuthentication(t *testing.T) {
	activate := activator(t)
	free, err := mcptest.FreeAddress("0.0.0.0")
	if err != nil {
		t.Fatal(err)
	}
	command, file := program(t, "listen: systemd\n")
	port := free[strings.LastIndexByte(free, ':')+1:]
	log := &mcptest.Log{}
	cmd := exec.Command(activate, "-l", "0.0.0.0:"+port, command, "serve", "-c", file)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(log.String(), "Listening on") {
		if t.Context().Err() != nil {
			t.Fatal(log.String())
		}
	}
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := ended(t, cmd); err == nil || !strings.Contains(log.String(), "without authentication") {
		t.Errorf("error %v, log %s", err, log)
	}
}

// TestNotify: systemd learns when the gateway serves, reloads and stops, and that it is well in between.
func TestNotify(t *testing.T) {
	at := filepath.Join(t.TempDir(), "notify")
	heard, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Close()
	_ = heard.SetReadDeadline(time.Now().Add(time.Minute))
	next := func() string {
		t.Helper()
		text := make([]byte, 1000)
		n, err := heard.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(text[:n])
	}
	wants := func(want string) { // amid signs of life
		t.Helper()
		got := next()
		for got == "WATCHDOG=1" {
			got = next()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	command, file := program(t, "listen: 'unix:"+filepath.Join(t.TempDir(), "mcp.sock")+"'\n")
	cmd := exec.Command(command, "serve", "-c", file)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+at, "WATCHDOG_USEC=40000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wants("READY=1")
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("%q", got)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGHUP)
	wants("RELOADING=1\nMONOTONIC_USEC=")
	wants("READY=1")
	_ = cmd.Process.Signal(syscall.SIGTERM)
	wants("STOPPING=1")
	if err := ended(t, cmd); err != nil {
		t.Error(fmt.Errorf("the gateway: %w", err))
	}
}
