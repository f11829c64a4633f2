//go:build interop

package interop

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// front is a proxy in front of a gateway. It writes down what clients and browsers ask, and lets time
// pass: an access token that a client got by a code is an hour older at the gateway once a call was
// made with it. The client notices what it would notice after an hour.
type front struct {
	URL    string // public_url of the gateway
	key    *ecdsa.PrivateKey
	server *httptest.Server
	in     sync.RWMutex // is read-locked by each request that passes, until it is written down

	mu     sync.Mutex        // guards the fields below
	passed []*passed         // in the order in which they came
	first  map[string]bool   // tokens got by a code
	aged   map[string]string // what the gateway gets instead of a token
	tokens []string          // all access tokens
	called func()            // what happens after a first call, before the next request
}

// passed is a request and its answer.
type passed struct {
	what   string // method, path and status; of token requests the grant, of calls whether there was a token
	client string // client_id
	query  url.Values
}

// newFront starts a proxy in front of a gateway that listens at an address and signs with key.
func newFront(t *testing.T, address string, key *ecdsa.PrivateKey) *front {
	f := &front{key: key, first: map[string]bool{}, aged: map[string]string{}}
	target := &url.URL{Scheme: "http", Host: address}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1,
		Transport: transport}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		f.pass(t, proxy, w, r)
	}))
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
		transport.CloseIdleConnections()
	})
	f.URL = f.server.URL + "/mcp"
	return f
}

// pass passes a request on and writes it down.
func (f *front) pass(t *testing.T, proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	f.in.RLock()
	defer f.in.RUnlock()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return // the client is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	one, token := &passed{what: r.Method + " " + r.URL.Path, query: r.URL.Query()}, ""
	switch r.URL.Path {
	case "/mcp":
		if token, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); token != "" {
			one.what += " with a token"
		}
		if old := f.agedFor(token); old != "" {
			r.Header.Set("Authorization", "Bearer "+old)
		}
	case "/oauth/token":
		one.query, _ = url.ParseQuery(string(body))
		one.what += " " + one.query.Get("grant_type")
	}
	if one.client = one.query.Get("client_id"); one.client == "" && r.URL.Path == "/oauth/token" {
		name, _, _ := r.BasicAuth()
		one.client, _ = url.QueryUnescape(name) // RFC 6749 §2.3.1
	}
	if r.URL.Path == "/mcp" {
		f.happen()
	}
	f.mu.Lock()
	f.passed = append(f.passed, one)
	f.mu.Unlock()
	answer := &watched{ResponseWriter: w, status: http.StatusOK, keeps: r.URL.Path == "/oauth/token"}
	proxy.ServeHTTP(answer, r)

	f.mu.Lock()
	defer f.mu.Unlock()
	one.what = fmt.Sprint(one.what, " ", answer.status)
	var got struct {
		Token string `json:"access_token"`
	}
	if answer.keeps && json.Unmarshal(answer.kept.Bytes(), &got) == nil && got.Token != "" {
		f.tokens = append(f.tokens, got.Token)
		f.first[got.Token] = one.query.Get("grant_type") == "authorization_code"
	}
	var message struct{ Method string }
	if f.first[token] && answer.status == http.StatusOK && json.Unmarshal(body, &message) == nil &&
		message.Method == "tools/call" {
		f.aged[token] = older(t, token, f.key)
	}
}

// happen lets happen what is to happen after a first call, while no request passes.
func (f *front) happen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.aged) > 0 && f.called != nil {
		f.called()
		f.called = nil
	}
}

func (f *front) agedFor(token string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.aged[token]
}

// begin forgets everything. called happens between the first call and the request after it.
func (f *front) begin(called func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed, f.tokens, f.called = nil, nil, called
	clear(f.first)
	clear(f.aged)
}

// seen returns what has passed, and the access tokens. The clients have ended.
func (f *front) seen() ([]*passed, []string) {
	f.in.Lock() // the last client may have its answer before that is written down
	defer f.in.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed, f.tokens
}

// older is a token as the gateway would have made it an hour ago.
func older(t *testing.T, token string, key *ecdsa.PrivateKey) string {
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Error(err)
		return ""
	}
	text, err := parsed.Verify(key.Public())
	var claims map[string]any
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	if err != nil {
		t.Error(err)
		return ""
	}
	for _, name := range []string{"iat", "exp"} {
		at, _ := claims[name].(float64)
		claims[name] = int64(at) - int64(time.Hour.Seconds())
	}
	if text, err = json.Marshal(claims); err == nil {
		var signer jose.Signer
		signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256,
			Key: jose.JSONWebKey{Key: key, KeyID: parsed.Signatures[0].Header.KeyID}},
			(&jose.SignerOptions{}).WithType("at+jwt"))
		if err == nil {
			if parsed, err = signer.Sign(text); err == nil {
				token, err = parsed.CompactSerialize()
			}
		}
	}
	if err != nil {
		t.Error(err)
	}
	return token
}

// watched notes the status of an answer and, if it keeps it, its body.
type watched struct {
	http.ResponseWriter
	status int
	keeps  bool
	kept   bytes.Buffer
}

// WriteHeader notes the status.
func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write passes the body on.
func (w *watched) Write(p []byte) (int, error) {
	if w.keeps {
		w.kept.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController: the proxy flushes.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
