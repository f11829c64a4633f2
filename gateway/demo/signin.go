package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/gatehouse-mcp/gatehouse/gateway/demo/issuer"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

const (
	// tokenLifetime is the lifetime of printed tokens: a day's work.
	tokenLifetime = 12 * time.Hour
	// signInLifetime is the lifetime of clients' tokens, which they refresh.
	signInLifetime = time.Hour
	// maxDocument bounds metadata documents of clients, in bytes.
	maxDocument = 64 << 10
)

// signIn holds the sign-in of a demo: the issuer, and how it knows the gateway and a
// script. The templates use the exported fields.
type signIn struct {
	Issuer   string
	TokenURL string
	Scope    string
	Users    []issuer.User
	Gateway  issuer.Client
	Script   issuer.Client
	Secret   string // the file with the gateway's secret

	endpoint string // of the gateway
	issuer   *issuer.Issuer
	outside  *safehttp.Client
}

// startSignIn starts the issuer. The servers must have their URLs already.
func (d *Demo) startSignIn() error {
	at, err := netip.ParseAddrPort(d.opts.Listen)
	if err != nil || !at.Addr().IsLoopback() || at.Port() == 0 {
		return fmt.Errorf("with sign-in it can only listen on a loopback IP address with a port, which %s is not", d.opts.Listen)
	}
	listener, err := listenNextTo(at, 1)
	if err != nil {
		return err
	}
	d.listeners = append(d.listeners, listener)
	url := "http://" + listener.Addr().String()
	s := &signIn{Issuer: url, TokenURL: url + "/token", Scope: "mcp", endpoint: "http://" + at.String() + "/mcp"}
	s.Users = []issuer.User{
		{Subject: "alice", Name: "Alice", Email: "alice@example.com", Groups: []string{"engineering"}, About: "deploys; writes notes after a yes"},
		{Subject: "bob", Name: "Bob", Email: "bob@example.com", Groups: []string{"support"}, About: "reads notes and handbook"},
	}
	s.Gateway = issuer.Client{ID: "gateway", Secret: rand.Text(), Resource: s.endpoint, Exchange: []string{d.urls["ops"]}}
	s.Script = issuer.Client{ID: "ci", Secret: rand.Text(), Groups: []string{"automation"}, Audiences: []string{s.endpoint}}
	if s.Secret, err = d.write("gateway.secret", []byte(s.Gateway.Secret)); err != nil {
		return err
	}
	deps := issuer.Deps{Log: d.opts.Log}
	if !d.opts.Offline {
		if s.outside, err = safehttp.New(safehttp.Options{MaxBytes: maxDocument}); err != nil {
			return err
		}
		deps.Fetch = s.fetch
	}
	users := slices.Clone(s.Users)
	for _, v := range visitors {
		users = append(users, v.user)
	}
	s.issuer, err = issuer.New(issuer.Config{
		URL:           url,
		Resources:     []string{s.endpoint},
		Scopes:        []issuer.Scope{{Name: s.Scope, Means: "use what the gateway's policy gives you"}},
		Users:         users,
		Clients:       []issuer.Client{s.Gateway, s.Script},
		Lifetime:      signInLifetime,
		TokenLifetime: tokenLifetime,
	}, deps)
	if err != nil {
		return err
	}
	d.signIn = s
	d.serve("issuer", listener, s.issuer)
	return nil
}

// listenNextTo listens so many ports after the gateway's. Clients remember their issuer, and
// people the console, so they have to be at the same address when the demo starts again. If that
// port is taken, it uses any other.
func listenNextTo(gateway netip.AddrPort, after uint16) (net.Listener, error) {
	next := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), gateway.Port()+after)
	if listener, err := net.Listen("tcp", next.String()); err == nil {
		return listener, nil
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// ListenBeside listens for operators, near the gateway's own address.
func ListenBeside(gateway net.Addr) (net.Listener, error) {
	at, err := netip.ParseAddrPort(gateway.String())
	if err != nil {
		return nil, err
	}
	return listenNextTo(at, 2)
}

func (s *signIn) close() {
	if s.outside != nil {
		s.outside.Close()
	}
}

// fetch reads a client's metadata document.
func (s *signIn) fetch(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	response, err := s.outside.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w (gatehouse demo --offline has clients register instead)", err)
	}
	if response.Status != http.StatusOK {
		return nil, fmt.Errorf("the answer is %d", response.Status)
	}
	return response.Body, nil
}

// protect passes only requests with a token for the server at url: those of the gateway, on
// behalf of a user. It refuses tokens that were issued for the gateway.
func (s *signIn) protect(url string) func(http.Handler) http.Handler {
	verify := func(_ context.Context, token string, _ *http.Request) (*sdkauth.TokenInfo, error) {
		who, err := s.issuer.Verify(token, url)
		if err != nil {
			return nil, errors.Join(sdkauth.ErrInvalidToken, err)
		}
		return &sdkauth.TokenInfo{UserID: who.Subject, Scopes: who.Scopes, Expiration: who.Expires}, nil
	}
	return sdkauth.RequireBearerToken(verify, nil)
}

// Token returns an access token for a user, "" without sign-in.
func (d *Demo) Token(user string) (string, error) {
	if d.signIn == nil {
		return "", nil
	}
	return d.signIn.issuer.Token(user, d.signIn.endpoint, d.signIn.Scope)
}
