package vault

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// engine is a transit secrets engine with the wire format of HashiCorp Vault, over TLS.
type engine struct {
	*httptest.Server
	key *seal.Key

	mu      sync.Mutex // guards the fields below
	token   string
	version int
	asked   []string // method, path and namespace
	sealed  bool     // answers 503, as a Vault does that is sealed
}

func newEngine(t *testing.T) (e *engine, cfg Transit) {
	t.Helper()
	key, err := seal.NewRandom("engine")
	if err != nil {
		t.Fatal(err)
	}
	e = &engine{key: key, token: "hvs.first", version: 1}
	e.Server = httptest.NewTLSServer(e)
	t.Cleanup(e.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	return e, Transit{URL: e.URL, Key: "gatehouse", Mount: "kms/transit", Namespace: "team/a",
		VaultToken: "hvs.first", CAFile: ca}
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Vault-Namespace"))
	refuse := func(status int, why string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{why}})
	}
	var params struct {
		Bits       int
		Ciphertext string
	}
	if json.NewDecoder(r.Body).Decode(&params) != nil || r.Header.Get("X-Vault-Request") != "true" {
		refuse(http.StatusBadRequest, "no request of a client")
		return
	}
	data := map[string]any{}
	switch {
	case e.sealed:
		refuse(http.StatusServiceUnavailable, "Vault is sealed")
		return
	case r.Header.Get("X-Vault-Token") != e.token:
		refuse(http.StatusForbidden, "permission denied for "+r.Header.Get("X-Vault-Token"))
		return
	case r.URL.Path == "/v1/kms/transit/datakey/plaintext/gatehouse" && params.Bits == 256:
		clear := []byte(rand32())
		data["plaintext"] = base64.StdEncoding.EncodeToString(clear)
		data["ciphertext"] = fmt.Sprintf("vault:v%d:%s", e.version, base64.StdEncoding.EncodeToString(e.key.SealBytes(clear)))
		data["key_version"] = e.version
	case r.URL.Path == "/v1/kms/transit/decrypt/gatehouse":
		var version int
		var text string
		_, _ = fmt.Sscanf(params.Ciphertext, "vault:v%d:%s", &version, &text)
		wrapped, err := base64.StdEncoding.DecodeString(text)
		clear, err2 := e.key.OpenBytes(wrapped)
		if err != nil || err2 != nil || version > e.version {
			refuse(http.StatusBadRequest, "cipher: message authentication failed")
			return
		}
		data["plaintext"] = base64.StdEncoding.EncodeToString(clear)
	default:
		refuse(http.StatusNotFound, "no handler for route "+r.URL.Path)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"request_id": "1", "lease_id": "", "renewable": false,
		"lease_duration": 0, "data": data, "warnings": nil})
}

func (e *engine) set(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *engine) requests() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.asked...)
}

// TestTransit: data keys come from the engine and are opened there, once for each user and replica;
// no call asks it while they are known.
func TestTransit(t *testing.T) {
	t.Parallel()
	e, cfg := newEngine(t)
	s := newAuthServer(t)
	redis := openRedis(t, redistest.Start(t).URL())
	v, _ := s.open(t, Config{Transit: cfg}, redis)
	keep(t, v, alice, "crm", s.grant("crm", -time.Second))
	keep(t, v, alice, "wiki", s.grant("wiki", time.Hour))
	for range 3 {
		wantToken(t, v, alice, "crm", accessToken("crm", 1))
		wantToken(t, v, alice, "wiki", accessToken("wiki", 0))
	}
	other, _ := s.open(t, Config{Transit: cfg}, redis)
	for range 3 {
		wantToken(t, other, alice, "crm", accessToken("crm", 1))
		wantToken(t, other, alice, "wiki", accessToken("wiki", 0))
	}
	want := []string{"POST /v1/kms/transit/datakey/plaintext/gatehouse team/a",
		"POST /v1/kms/transit/decrypt/gatehouse team/a"}
	if got := e.requests(); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("asked %q, want %q", got, want)
	}
	e.set(func() { e.sealed = true })
	wantToken(t, other, alice, "crm", accessToken("crm", 1)) // by heart
	third, log := s.open(t, Config{Transit: cfg}, redis)
	_, _, err := third.Token(t.Context(), alice, "crm", serverURL)
	if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Why, "try again later") ||
		!strings.Contains(e.cause.Error(), "Vault is sealed") {
		t.Errorf("got %v: that is no sign-in that is missing", err)
	}
	e.set(func() { e.sealed, e.token = false, "hvs.other" })
	_, _, err = third.Token(t.Context(), alice, "crm", serverURL)
	if err == nil || strings.Contains(fmt.Sprint(err, errors.Unwrap(err), log), "hvs.") {
		t.Errorf("got %v %v, want an error without the token", err, errors.Unwrap(err))
	}
}

// TestTransitRotation: a token is read from its file each time, and a new version of the key seals
// anew what is used.
func TestTransitRotation(t *testing.T) {
	t.Parallel()
	e, cfg := newEngine(t)
	cfg.TokenFile = filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(cfg.TokenFile, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sealer, err := newSealer(Config{Transit: cfg, Keys: localKeys(keyA).Keys})
	if err != nil {
		t.Fatal(err)
	}
	defer sealer.close()
	at := place{alice, "crm"}
	first, err := sealer.seal(t.Context(), at, []byte("plain"))
	if err != nil || sealer.old(first) {
		t.Fatal(err, sealer.old(first))
	}
	e.set(func() { e.version, e.token = 2, "hvs.second" })
	write("hvs.second")
	if _, err := sealer.seal(t.Context(), place{bob, "crm"}, []byte("plain")); err != nil {
		t.Fatal(err)
	}
	if !sealer.old(first) {
		t.Error("what the first version sealed is not old")
	}
	second, err := sealer.seal(t.Context(), at, []byte("plain"))
	if err != nil || sealer.old(second) || !strings.HasPrefix(string(second), "transit:vault:v2:") {
		t.Errorf("%.20q %v", second, err)
	}
	local, err := newSealer(localKeys(keyA))
	if err != nil {
		t.Fatal(err)
	}
	third, err := local.seal(t.Context(), at, []byte("plain"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := sealer.open(t.Context(), at, third); string(plain) != "plain" || err != nil || !sealer.old(third) {
		t.Errorf("%q %v: keys of the configuration open beside a transit engine", plain, err)
	}
	if _, err := local.open(t.Context(), at, first); !errors.Is(err, errUnreadable) {
		t.Errorf("got %v", err)
	}
	broken := strings.Replace(string(first), "transit:vault:v1:", "transit:vault:v1:AAAA", 1)
	if _, err := sealer.open(t.Context(), at, []byte(broken)); !errors.Is(err, errUnreadable) {
		t.Errorf("got %v", err)
	}
}

func rand32() string { return (rand.Text() + rand.Text())[:32] }
