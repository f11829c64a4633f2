package tlsfiles_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

const acmeDomain = "mcp.example.com"

// orders returns the certificate of a listener that is ordered at a directory.
func orders(t *testing.T, directory string, with tlsfiles.Orders) *tlsfiles.Live {
	t.Helper()
	s := tlsfiles.Server{ACME: &tlsfiles.ACME{Domains: []string{acmeDomain}, AcceptTerms: true, Directory: directory}}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	live, err := s.Open(with)
	if err != nil {
		t.Fatal(err)
	}
	return live
}

func newStore() *expiring.Store { return expiring.New(expiring.Base{}, nil, "acme", 100) }

// nowhere is a client for what must ask for nothing.
type nowhere struct{ t *testing.T }

func (n nowhere) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("%s %s", r.Method, r.URL)
	return nil, context.Canceled
}

// TestACMEKept: a certificate that a replica, or an earlier process, has kept is used without an order.
func TestACMEKept(t *testing.T) {
	a, store := mcptest.NewAuthority(t), newStore()
	live := orders(t, "https://acme.example.com/dir",
		tlsfiles.Orders{Store: store, Client: &http.Client{Transport: nowhere{t}}})
	if s := live.Status(); s.Ends[0].Problem == "" || !s.Ends[0].At.IsZero() {
		t.Errorf("before there is one: %+v", s.Ends[0])
	}
	keep := func(life time.Duration) {
		cert, key := a.Issue(t, "server", life)
		var text []byte
		for _, file := range []string{key, cert} {
			one, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, one...)
		}
		if err := store.Put(t.Context(), "certificate https://acme.example.com/dir "+acmeDomain, text, life); err != nil {
			t.Fatal(err)
		}
	}
	// The certificates of tests begin two hours ago, and are replaced when a third of their life is left.
	keep(10 * time.Hour)
	renewed, wait, err := live.Renew(t.Context())
	if err != nil || !renewed || wait != time.Hour {
		t.Errorf("renewed %t, wait %s, error %v", renewed, wait, err)
	}
	if renewed, _, err = live.Renew(t.Context()); err != nil || renewed {
		t.Errorf("again: renewed %t, error %v", renewed, err)
	}
	keep(20 * time.Hour)
	if renewed, _, err = live.Renew(t.Context()); err != nil || !renewed {
		t.Errorf("a newer one: renewed %t, error %v", renewed, err)
	}
	if s := live.Status(); s.Renewed != 2 || s.Refused != 0 || s.Ends[0].File != acmeDomain || s.Ends[0].Problem != "" ||
		time.Until(s.Ends[0].At) < 19*time.Hour {
		t.Errorf("%+v", s)
	}
}

// TestACMELimited: the gateway waits as long as an authority asks that limits orders, and so do other replicas and a
// new process; what was in use stays in use.
func TestACMELimited(t *testing.T) {
	var directory *httptest.Server
	directory = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Replay-Nonce", "bm9uY2U")
		switch r.URL.Path {
		case "/dir":
			json.NewEncoder(w).Encode(map[string]string{"newNonce": directory.URL + "/nonce",
				"newAccount": directory.URL + "/account", "newOrder": directory.URL + "/order"})
		case "/account":
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
			w.Write([]byte(`{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many accounts"}`))
		}
	}))
	defer directory.Close()
	store := newStore()
	live := orders(t, directory.URL+"/dir", tlsfiles.Orders{Store: store, Client: directory.Client()})
	renewed, wait, err := live.Renew(t.Context())
	if renewed || err == nil || !strings.Contains(err.Error(), "too many accounts") ||
		wait < 119*time.Minute || wait > 2*time.Hour {
		t.Errorf("renewed %t, wait %s, error %v", renewed, wait, err)
	}
	if s := live.Status(); s.Refused != 1 || !strings.Contains(s.Ends[0].Problem, "too many accounts") {
		t.Errorf("%+v", s)
	}
	other := orders(t, directory.URL+"/dir", tlsfiles.Orders{Store: store, Client: &http.Client{Transport: nowhere{t}}})
	if renewed, _, err := other.Renew(t.Context()); renewed || err != nil {
		t.Errorf("another replica: renewed %t, error %v", renewed, err)
	}
}

// TestACMEProofs: any replica answers the authority, with the account that all have, and only for what it has asked.
func TestACMEProofs(t *testing.T) {
	store := newStore()
	open := func() *tlsfiles.Live { return orders(t, "", tlsfiles.Orders{Store: store}) }
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := errors.Join(store.Put(t.Context(), "proof "+acmeDomain, []byte("asked"), time.Minute),
		store.Put(t.Context(), "account "+acme.LetsEncryptURL, account, time.Minute)); err != nil {
		t.Fatal(err)
	}
	ask := func(live *tlsfiles.Live, host, path string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil)
		w := httptest.NewRecorder()
		live.Proofs().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const path = "/.well-known/acme-challenge/"
	one, other := open(), open()
	code, proof := ask(one, acmeDomain+":80", path+"asked")
	if again, same := ask(other, acmeDomain, path+"asked"); code != 200 || again != 200 || proof != same ||
		!strings.HasPrefix(proof, "asked.") {
		t.Errorf("%d %q, and another replica %d %q", code, proof, again, same)
	}
	for _, wrong := range [][2]string{{acmeDomain, path + "other"}, {acmeDomain, path}, {acmeDomain, "/mcp"},
		{"other.example.com", path + "asked"}} {
		if code, text := ask(one, wrong[0], wrong[1]); code != http.StatusNotFound {
			t.Errorf("%v: %d %q", wrong, code, text)
		}
	}
	shake := func(name string) error {
		near, far := net.Pipe()
		defer near.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			tls.Server(far, other.Config()).HandshakeContext(ctx)
			far.Close()
		}()
		client := tls.Client(near, &tls.Config{ServerName: name, NextProtos: []string{acme.ALPNProto},
			InsecureSkipVerify: true})
		err := client.HandshakeContext(ctx)
		if state := client.ConnectionState(); err == nil && (state.NegotiatedProtocol != acme.ALPNProto ||
			!slices.Equal(state.PeerCertificates[0].DNSNames, []string{name})) {
			t.Errorf("%s, for %v", state.NegotiatedProtocol, state.PeerCertificates[0].DNSNames)
		}
		cancel()
		<-ended
		return err
	}
	if err := shake(acmeDomain); err != nil {
		t.Error(err)
	}
	if err := shake("other.example.com"); err == nil {
		t.Error("a proof for a domain that is not asked for")
	}
}

// TestACMEMistakes: what is missing or wrong is named by its key.
func TestACMEMistakes(t *testing.T) {
	good := tlsfiles.ACME{Domains: []string{acmeDomain, "xn--bcher-kva.example"}, AcceptTerms: true}
	for want, change := range map[string]func(*tlsfiles.Server){
		"":                           func(*tlsfiles.Server) {},
		"acme: domains: are missing": func(s *tlsfiles.Server) { s.ACME.Domains = nil },
		"acme: domains[0]: ":         func(s *tlsfiles.Server) { s.ACME.Domains = []string{"*.example.com"} },
		`domains[1]: "127.0.0.1"`:    func(s *tlsfiles.Server) { s.ACME.Domains = []string{acmeDomain, "127.0.0.1"} },
		"domains[1]: \"" + acmeDomain: func(s *tlsfiles.Server) {
			s.ACME.Domains = []string{acmeDomain, acmeDomain}
		},
		"acme: accept_terms: ":     func(s *tlsfiles.Server) { s.ACME.AcceptTerms = false },
		"acme: email: ":            func(s *tlsfiles.Server) { s.ACME.Email = "ops" },
		"acme: directory: ":        func(s *tlsfiles.Server) { s.ACME.Directory = "http://acme.example.com" },
		"take cert_file and key_f": func(s *tlsfiles.Server) { s.CertFile = "cert.pem" },
	} {
		acme := good
		s := tlsfiles.Server{ACME: &acme}
		change(&s)
		err := s.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if got := (tlsfiles.Server{ACME: &good}).String(); got !=
		"TLS 1.2 or newer, mcp.example.com, xn--bcher-kva.example by ACME from acme-v02.api.letsencrypt.org (tls-alpn-01)" {
		t.Errorf("%q", got)
	}
}
