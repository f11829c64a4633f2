package demo

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const endpoint = "http://127.0.0.1:8080/mcp"

func startSignIn(t *testing.T, offline bool) *Demo {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	d, err := Start(t.Context(), Options{
		Executable: os.Args[0], Command: "bin/gatehouse", Listen: "127.0.0.1:8080", SignIn: true, Offline: offline,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestSignInIsForThisMachine(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080", "localhost:8080",
		":8080", "nothing"} {
		if _, err := Start(t.Context(), Options{Executable: "x", Listen: listen, SignIn: true}); err == nil ||
			!strings.Contains(err.Error(), listen) {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestSignInConfig(t *testing.T) {
	d := startSignIn(t, true)
	file, err := d.WriteConfig()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(text, d.Config()) {
		t.Errorf("the file is not the configuration: %v", err)
	}
	var config struct {
		Auth struct {
			Mode    string
			Issuers []struct{ URL string }
			Server  struct {
				Secret string `yaml:"client_secret"`
			}
		}
		Policy struct {
			Default string
			Rules   []struct{ Name, When string }
		}
		Upstreams []struct {
			Name string
			Auth map[string]string
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if config.Auth.Mode != "oauth" || config.Auth.Issuers[0].URL != d.signIn.Provider.URL ||
		config.Policy.Default != "deny" || len(config.Policy.Rules) != 5 {
		t.Errorf("config %+v\n%s", config, text)
	}
	for _, u := range config.Upstreams {
		if (u.Auth != nil) != (u.Name == "ops") {
			t.Errorf("%s: auth %v", u.Name, u.Auth)
		}
		if u.Name == "ops" {
			checkSecret(t, text, u.Auth["token"], d.signIn.opsToken)
		}
	}
	checkSecret(t, text, config.Auth.Server.Secret, d.signIn.Provider.secret)
	d.Close()
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("files stay behind: %v", err)
	}
}

// checkSecret expects a value of the configuration to name a file with a secret.
func checkSecret(t *testing.T, config []byte, value, secret string) {
	t.Helper()
	file, ok := strings.CutPrefix(value, "${file:")
	content, err := os.ReadFile(strings.TrimSuffix(file, "}"))
	if !ok || err != nil || string(content) != secret || bytes.Contains(config, content) {
		t.Errorf("the secret: %v\n%s", err, config)
	}
}

func TestSignInGuide(t *testing.T) {
	d := startSignIn(t, true)
	if _, err := d.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := d.Guide(&out, endpoint); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		endpoint, d.file, "\nALICE=ghk_", "\nBOB=ghk_", "\nCI=ghk_", "engineering", "support", "bin/gatehouse explain",
		"2026-07-28", "2025-11-25", "--no-auth", "claude mcp add", "inspector",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the guide does not mention %s", want)
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, d.dir) {
			continue // its width depends on the system's directory for temporary files
		}
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 100 {
			t.Errorf("%d columns wide: %s", width, line)
		}
	}
	if strings.Contains(out.String(), "\n\n\n") || strings.Contains(out.String(), "\x1b") {
		t.Error("empty lines follow each other, or there is bold type that nobody asked for")
	}
	if strings.Contains(out.String(), d.signIn.Provider.secret) || strings.Contains(out.String(), d.signIn.opsToken) {
		t.Error("the gateway's own secrets are shown")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// TestOpsWantsTheGateway: a user's key is no good at the server, only the gateway's own token is.
func TestOpsWantsTheGateway(t *testing.T) {
	d := startSignIn(t, true)
	for _, tt := range []struct {
		name, token string
		want        int
	}{
		{"nothing", "", http.StatusUnauthorized},
		{"a user's key", d.Key("alice"), http.StatusUnauthorized},
		{"the gateway's token", d.signIn.opsToken, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.urls["ops"], strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Authorization", "Bearer "+tt.token)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tt.want {
				t.Errorf("%d, want %d", response.StatusCode, tt.want)
			}
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestOffline: without the web, clients have no documents there.
func TestOffline(t *testing.T) {
	for _, offline := range []bool{true, false} {
		config := startSignIn(t, offline).Config()
		if bytes.Contains(config, []byte("cimd:")) == offline || !bytes.Contains(config, []byte("dcr:")) {
			t.Errorf("offline %t:\n%s", offline, config)
		}
	}
}

func TestNoKeysWithoutSignIn(t *testing.T) {
	if key := start(t).Key("alice"); key != "" {
		t.Error(key)
	}
}
