package doorway

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listenAt listens at the socket of a test.
func listenAt(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := new(Passed).Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestSocket: a socket is for user and group, and has gone when its listener closes.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.sock")
	l := listenAt(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o660 {
		t.Errorf("%v, error %v", info.Mode(), err)
	}
	if got := l.Addr().String(); got != path {
		t.Errorf("address %s", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestSocketOfAnother: the socket of a process that has died is replaced. One at which another process
// listens is not, nor is a file; and a listener removes no socket but its own.
func TestSocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	former := listenAt(t, path)
	if _, err := new(Passed).Listen("unix:" + path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("at one that is in use: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	listenAt(t, path)
	former.Close()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a listener has removed the socket of another: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := new(Passed).Listen("unix:" + file); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("at a file: %v", err)
	}
	if text, _ := os.ReadFile(file); string(text) != "kept" {
		t.Errorf("the file has %q", text)
	}
}

// TestClientsOfASocket: all connections to a socket count as one client, unless they come from proxies that name
// theirs.
func TestClientsOfASocket(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg    Config
		header string
		seen   string
	}{
		"no proxy":         {Config{}, "", "@"},
		"a proxy":          {Config{Proxies: []string{"unix"}}, "", "192.0.2.99"},
		"another proxy":    {Config{Proxies: []string{"10.0.0.1"}}, "", "@"},
		"a proxy's header": {Config{Proxies: []string{"unix"}, ProxyProtocol: true}, header(t, 2, "192.0.2.7:5000"), "192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.PerAddress = 2
			s := serve(t, listenAt(t, filepath.Join(t.TempDir(), "mcp.sock")), tt.cfg)
			for i := range 3 {
				conn, err := net.Dial("unix", s.listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				fmt.Fprint(conn, tt.header, plainRequest)
				text := make([]byte, 1000)
				n, err := conn.Read(text)
				if bounded := len(tt.cfg.Proxies) == 0 || tt.cfg.Proxies[0] != "unix" || tt.header != ""; bounded && i == 2 {
					if err == nil {
						t.Errorf("a third connection is answered: %s", text[:n])
					}
					return
				}
				if err != nil && err != io.EOF || !strings.Contains(string(text[:n]), "Seen: "+tt.seen) {
					t.Fatalf("%s, error %v", text[:n], err)
				}
			}
		})
	}
}

func TestCheckSocket(t *testing.T) {
	for path, good := range map[string]bool{
		"/run/gatehouse/mcp.sock": true, "mcp.sock": false, "": false, "@abstract": false, "/" + strings.Repeat("x", 100): false,
	} {
		if err := CheckSocket(path); (err == nil) != good {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestKind(t *testing.T) {
	for address, want := range map[string][2]string{
		"127.0.0.1:8080": {TCP, ""}, ":8080": {TCP, ""}, "[::1]:80": {TCP, ""}, "unix.example.com:80": {TCP, ""},
		"unix:/run/a.sock": {Unix, "/run/a.sock"}, "systemd": {Systemd, ""}, "systemd:mcp": {Systemd, "mcp"},
	} {
		if kind, name := Kind(address); [2]string{kind, name} != want {
			t.Errorf("%s: %s %s", address, kind, name)
		}
	}
}
