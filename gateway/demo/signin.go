package demo

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
)

// keyLifetime is longer than any demo runs, and than the time in which gatehouse check warns of keys.
const keyLifetime = 90 * 24 * time.Hour

// user is a person or a script that calls the gateway.
type user struct {
	Subject, Name string
	Groups        []string
	About         string // what policy lets them do
}

// signIn holds the sign-in of a demo. The templates use the exported fields.
type signIn struct {
	Provider *provider
	Users    []user // those of the texts
	Scope    string
	Keys     map[string]string // everyone's API keys, by subject
	Entries  []apikey.Entry    // of these
	// Secret is the file with the gateway's secret at the provider, OpsToken that with its token at ops.
	Secret, OpsToken string

	opsToken string
}

// startSignIn starts the provider.
func (d *Demo) startSignIn() error {
	at, err := netip.ParseAddrPort(d.opts.Listen)
	if err != nil || !at.Addr().IsLoopback() || at.Port() == 0 {
		return fmt.Errorf("with sign-in it can only listen on a loopback IP address with a port, which %s is not",
			d.opts.Listen)
	}
	listener, err := listenNextTo(at, 1)
	if err != nil {
		return err
	}
	d.listeners = append(d.listeners, listener)
	people := []user{
		{"alice", "Alice", []string{"engineering"}, "deploys; writes notes after a yes"},
		{"bob", "Bob", []string{"support"}, "reads notes and handbook"},
	}
	script := user{"ci", "", []string{"automation"}, "a script: deploys to staging"}
	s := &signIn{
		Users: append(slices.Clone(people), script),
		Scope: "mcp", Keys: make(map[string]string), opsToken: rand.Text(),
	}
	s.Provider, err = newProvider("http://"+listener.Addr().String(), "http://"+at.String()+"/oauth/callback", people)
	if err != nil {
		return err
	}
	if s.Secret, err = d.write("gateway.secret", []byte(s.Provider.secret)); err != nil {
		return err
	}
	if s.OpsToken, err = d.write("ops.token", []byte(s.opsToken)); err != nil {
		return err
	}
	everyone := slices.Clone(s.Users)
	for _, v := range visitors {
		everyone = append(everyone, v.user)
	}
	expires := time.Now().Add(keyLifetime).UTC().Format(time.RFC3339)
	for _, u := range everyone {
		key, id := apikey.New()
		s.Keys[u.Subject] = key
		s.Entries = append(s.Entries, apikey.Entry{
			ID: id, Hash: apikey.Hash(key), Expires: expires,
			User: u.Subject, Groups: u.Groups, Scopes: []string{s.Scope},
		})
	}
	d.signIn = s
	d.serve("provider", listener, s.Provider.handler())
	return nil
}

// listenNextTo listens so many ports after the gateway's: forwarded ports and links to the console
// stay valid when the demo starts again. If that port is taken, it uses any other.
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

// protect passes only requests of the gateway to ops. Clients' tokens and keys are not valid there.
func (s *signIn) protect(next http.Handler) http.Handler {
	want := []byte("Bearer " + s.opsToken)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "ops wants the gateway's own token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Key returns the API key of a user, "" without sign-in.
func (d *Demo) Key(subject string) string {
	if d.signIn == nil {
		return ""
	}
	return d.signIn.Keys[subject]
}
