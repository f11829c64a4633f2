package e2e

import (
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// desk is the token endpoint of an issuer. It checks requests and issues tokens with the
// issuer's key.
type desk struct {
	issuer *mcptest.Issuer
	// judge returns what is wrong with a request, or the claims of the token.
	judge func(r *http.Request) (claims, error)

	mu      sync.Mutex // guards the fields below
	issued  []string
	refused []string // reasons
}

// errorCode is an error code of RFC 6749 §5.2.
type errorCode string

func (e errorCode) Error() string { return string(e) }

func newDesk(issuer *mcptest.Issuer, judge func(r *http.Request) (claims, error)) *desk {
	d := &desk{issuer: issuer, judge: judge}
	issuer.Handle("/token", d.serve)
	return d
}

func (d *desk) url() string { return d.issuer.URL + "/token" }

func (d *desk) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	all, err := d.judge(r)
	if kind := r.Header.Get("Content-Type"); err == nil &&
		(r.Method != http.MethodPost || kind != "application/x-www-form-urlencoded" || r.URL.RawQuery != "") {
		err = fmt.Errorf("%s %s, query %q", r.Method, kind, r.URL.RawQuery)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.refused = append(d.refused, err.Error())
		code, ok := errors.AsType[errorCode](err)
		if !ok {
			code = "invalid_request"
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":%q,"error_description":"the desk's own words"}`, string(code))
		return
	}
	token := d.issuer.Token(all)
	d.issued = append(d.issued, token)
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":300,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`, token)
}

// answers returns the tokens that were issued, and the reasons for refusals.
func (d *desk) answers() (issued, refused []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.issued), slices.Clone(d.refused)
}

// tokens returns the tokens that were issued. It fails the test if there was a refusal.
func (d *desk) tokens(t *testing.T) []string {
	t.Helper()
	issued, refused := d.answers()
	if len(refused) > 0 {
		t.Errorf("the desk refused: %q", refused)
	}
	return issued
}

// wantForm checks the members of a form and allows no others.
func wantForm(r *http.Request, want map[string]string) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	for name, value := range want {
		if got := r.PostForm[name]; len(got) != 1 || got[0] != value {
			return fmt.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if len(r.PostForm) != len(want) {
		return fmt.Errorf("the form has %q", slices.Sorted(maps.Keys(r.PostForm)))
	}
	return nil
}

// verified returns the claims of a JWT after checking key, audience and time.
func verified(token string, alg jose.SignatureAlgorithm, key crypto.PublicKey, audience string) (claims, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{alg})
	if err != nil {
		return nil, err
	}
	all, standard := claims{}, jwt.Claims{}
	if err := parsed.Claims(key, &all, &standard); err != nil {
		return nil, err
	}
	return all, standard.Validate(jwt.Expected{AnyAudience: jwt.Audience{audience}, Time: time.Now()})
}

// door stands in front of a scripted server and accepts tokens that the issuer made for it
// (RFC 6750). It can refuse a subject in spite of such a token.
type door struct {
	*mcptest.Server
	url    string
	issuer *mcptest.Issuer

	mu      sync.Mutex // guards the fields below
	revoked map[string]bool
	out     map[string]int // status by subject
	seen    map[string]int // Authorization headers
}

// challenge is the door's answer to a request without an acceptable token.
const challenge = `Bearer realm="the door", error="invalid_token", resource_metadata="https://evil.example/metadata", scope="everything"`

func newDoor(t *testing.T, s *mcptest.Server, issuer *mcptest.Issuer) *door {
	t.Helper()
	d := &door{Server: s, issuer: issuer, revoked: map[string]bool{}, out: map[string]int{}, seen: map[string]int{}}
	served := httptest.NewServer(d)
	t.Cleanup(func() {
		s.Close() // ends requests that hang
		served.CloseClientConnections()
		served.Close()
	})
	d.url = served.URL + "/mcp"
	return d
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	authorization := r.Header.Get("Authorization")
	token := strings.TrimPrefix(authorization, "Bearer ")
	all, err := verified(token, jose.SignatureAlgorithm(d.issuer.Key().Alg), d.issuer.Key().Public(), d.url)
	d.mu.Lock()
	d.seen[authorization]++
	status := d.out[fmt.Sprint(all["sub"])]
	if err != nil || d.revoked[token] {
		status = http.StatusUnauthorized
	}
	d.mu.Unlock()
	if status != 0 {
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, "you shall not pass the door", status)
		return
	}
	d.Server.ServeHTTP(w, r)
}

// revoke invalidates tokens.
func (d *door) revoke(tokens ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, token := range tokens {
		d.revoked[token] = true
	}
}

// keepOut refuses a subject from now on, whatever the token.
func (d *door) keepOut(subject string, status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out[subject] = status
}

// shown returns the tokens that the door has seen.
func (d *door) shown() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var tokens []string
	for authorization := range d.seen {
		tokens = append(tokens, strings.TrimPrefix(authorization, "Bearer "))
	}
	return tokens
}

// subjectOf reads the subject of a bearer token that the door has accepted.
func subjectOf(r mcptest.Received) string {
	token, err := jwt.ParseSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
		[]jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return ""
	}
	var all jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&all); err != nil {
		return ""
	}
	return all.Subject
}

// clientAt returns the gateway's credentials at a desk.
func (d *desk) clientAt(kind string) outbound.Config {
	return outbound.Config{Type: kind, TokenURL: d.url(), ClientID: "gatehouse", ClientSecret: deskSecret}
}

// deskSecret contains characters that a form encodes.
const deskSecret = "100% desk+secret:&"

// wantUpstreamError requires the error of a call that an upstream refused, without any text
// of the upstream.
func wantUpstreamError(t *testing.T, what string, x *mcptest.Exchange, text string) {
	t.Helper()
	m, err := x.Response()
	var data struct{ Upstream, Executed string }
	if err != nil || x.Status != 200 || m.Error == nil || m.Error.Code != 50204 ||
		!strings.Contains(m.Error.Message, text) ||
		json.Unmarshal(m.Error.Data, &data) != nil || data.Upstream != "up" || data.Executed != "no" {
		t.Errorf("%s: %d %s, %v; want 50204 with %q", what, x.Status, m.Text, err, text)
	}
	if x.Header.Get("Www-Authenticate") != "" || strings.Contains(m.Text, "door") || strings.Contains(m.Text, "evil") ||
		strings.Contains(m.Text, "127.0.0.1") {
		t.Errorf("%s: relayed: %v %s", what, x.Header, m.Text)
	}
}
