package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
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
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080", "localhost:8080", ":8080", "nothing"} {
		if _, err := Start(t.Context(), Options{Executable: "x", Listen: listen, SignIn: true}); err == nil || !strings.Contains(err.Error(), listen) {
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
	if config.Auth.Mode != "oauth" || config.Auth.Issuers[0].URL != d.signIn.Issuer || config.Policy.Default != "deny" || len(config.Policy.Rules) != 5 {
		t.Errorf("config %+v\n%s", config, text)
	}
	for _, u := range config.Upstreams {
		if (u.Auth != nil) != (u.Name == "ops") {
			t.Errorf("%s: auth %v", u.Name, u.Auth)
		}
		if secret, ok := strings.CutPrefix(u.Auth["client_secret"], "${file:"); u.Name == "ops" {
			content, err := os.ReadFile(strings.TrimSuffix(secret, "}"))
			if !ok || err != nil || string(content) != d.signIn.Gateway.Secret || bytes.Contains(text, content) {
				t.Errorf("the secret: %v\n%s", err, text)
			}
		}
	}
	d.Close()
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("files stay behind: %v", err)
	}
}

func TestSignInWelcome(t *testing.T) {
	d := startSignIn(t, true)
	if _, err := d.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := d.Welcome(&out, endpoint); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		endpoint, d.signIn.Issuer, d.file, "\nALICE=", "\nBOB=", "engineering", "support", "bin/gatehouse explain",
		"2026-07-28", "2025-11-25", "--no-auth", "claude mcp add", "inspector",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the welcome does not mention %s", want)
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, d.dir) || strings.Contains(line, d.signIn.Script.Secret) {
			continue // its width depends on the system's directory for temporary files
		}
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 100 {
			t.Errorf("%d columns wide: %s", width, line)
		}
	}
	if strings.Contains(out.String(), "\n\n\n") || strings.Contains(out.String(), "\x1b") {
		t.Error("empty lines follow each other, or there is bold type that nobody asked for")
	}
	if strings.Contains(out.String(), d.signIn.Gateway.Secret) {
		t.Error("the gateway's own secret is shown")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestFolded(t *testing.T) {
	word := strings.Repeat("0123456789", 30)
	got := folded(6, word)
	if strings.ReplaceAll(got, "\\\n", "") != word {
		t.Errorf("%q", got)
	}
	for i, line := range strings.Split(got, "\n") {
		if width := len(line); width > 99 || i == 0 && width > 93 {
			t.Errorf("%d columns wide: %s", width, line)
		}
	}
	if got := folded(6, "short"); got != "short" {
		t.Errorf("%q", got)
	}
}

// TestOpsWantsItsOwnTokens: a client's token for the gateway is useless at the server; only
// the token that the gateway gets for it in exchange works.
func TestOpsWantsItsOwnTokens(t *testing.T) {
	d := startSignIn(t, true)
	ofAlice, err := d.Token("alice")
	if err != nil {
		t.Fatal(err)
	}
	exchanged := exchange(t, d, ofAlice)
	for _, tt := range []struct {
		name, token string
		want        int
	}{
		{"nothing", "", http.StatusUnauthorized},
		{"P9/223 the client's token", ofAlice, http.StatusUnauthorized},
		{"the one from the exchange", exchanged, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.urls["ops"], strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if tt.token != "" {
				r.Header.Set("Authorization", "Bearer "+tt.token)
			}
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
	client := &http.Client{Transport: bearer(exchanged)}
	defer client.CloseIdleConnections()
	s := connect(t, &sdk.StreamableClientTransport{Endpoint: d.urls["ops"], HTTPClient: client}, "", nil)
	deployed := call(t, s, "deploy", map[string]any{"service": "web", "version": "2", "environment": "staging", "pace_ms": 0})
	if !strings.Contains(string(deployed), `"by":"alice"`) {
		t.Errorf("the server does not know for whom it is: %s", deployed)
	}
}

func TestNoTokensWithoutSignIn(t *testing.T) {
	if token, err := start(t).Token("alice"); token != "" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
}

func TestMetadataDocumentsAreReadUnlessOffline(t *testing.T) {
	for _, offline := range []bool{true, false} {
		d := startSignIn(t, offline)
		response, err := http.Get(d.signIn.Issuer + "/.well-known/oauth-authorization-server")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || strings.Contains(string(body), `"client_id_metadata_document_supported":true`) == offline {
			t.Errorf("offline %t: %s, %v", offline, body, err)
		}
		if offline {
			continue
		}
		// A document on this machine is not fetched (P9/231), and the page says what to do.
		q := url.Values{"client_id": {"https://127.0.0.1/client"}, "redirect_uri": {"http://localhost/cb"}, "response_type": {"code"}}
		response, err = http.Get(d.signIn.Issuer + "/authorize?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		body, err = io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "--offline") {
			t.Errorf("%d %s, %v", response.StatusCode, body, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// bearer adds a token to each request.
type bearer string

func (token bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// exchange exchanges a client's token as the gateway does.
func exchange(t *testing.T, d *Demo, token string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.signIn.TokenURL, strings.NewReader(url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token":      {token},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"resource":           {d.urls["ops"]},
	}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(d.signIn.Gateway.ID, d.signIn.Gateway.Secret)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	return got.AccessToken
}
