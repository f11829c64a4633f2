package accounts

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// longest is how long a user may take to sign in at a server.
	longest = 10 * time.Minute
	// requestTime bounds one request, discoverTime all of a discovery.
	requestTime  = 5 * time.Second
	discoverTime = 20 * time.Second
	maxAnswer    = 256 << 10
	maxToken     = 16 << 10
	maxRefresh   = 16 << 10
)

// Flow is the authorization code flow at servers' authorization servers (OAuth 2.1 §4.1). It uses
// PKCE, resource (RFC 8707) and iss (RFC 9207).
type Flow struct {
	// PublicURL is the origin of the gateway for browsers, without a path.
	PublicURL string
	// Callback is the path to which browsers come back. Default: CallbackPath of the server.
	Callback string
	// Store keeps sign-ins that have begun, and what the gateway is registered as.
	Store *expiring.Store
	// Key seals states.
	Key *seal.Key
}

// begun is a sign-in that has begun. It is kept until its user comes back.
type begun struct {
	Server string `json:"server"`
	// URL is the server's, for which the user signs in: tokens go nowhere else.
	URL string `json:"url"`
	// Issuer is that of the server's metadata, as they were before the user was sent away.
	Issuer      string   `json:"issuer"`
	NamesItself bool     `json:"names_itself,omitempty"`
	TokenURL    string   `json:"token_url"`
	RevokeURL   string   `json:"revoke_url,omitempty"`
	Resource    string   `json:"resource"`
	Scopes      []string `json:"scopes,omitempty"`
	Client      client   `json:"client"`
	Verifier    string   `json:"verifier"`
	Ticket      string   `json:"ticket,omitempty"` // that led here
}

// target is the parameter that says what tokens are for.
func (b begun) target() []oauth2.AuthCodeOption {
	if b.Resource == "" {
		return nil
	}
	return []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("resource", b.Resource)}
}

// way is the page to which a user goes to sign in.
type way struct {
	URL, Host string
	Scopes    []string
}

func (f *Flow) redirect(server string) string {
	return f.PublicURL + cmp.Or(f.Callback, CallbackPath(server))
}

// web returns the HTTP client for a server. It reaches what the operator configured, and public
// addresses.
func (f *Flow) web(s Server) (*safehttp.Client, error) {
	trust := []string{s.URL}
	if s.Issuer != "" {
		trust = append(trust, s.Issuer)
	}
	return safehttp.New(safehttp.Options{Trust: trust, Timeout: requestTime, MaxBytes: maxAnswer, Route: s.Route})
}

// begin prepares a sign-in of a user in a browser. Before is the state of the account. Errors are a *Problem.
func (f *Flow) begin(ctx context.Context, s Server, who vault.Owner, browser, ticket string,
	before vault.State) (way, error) {
	ctx, cancel := context.WithTimeout(ctx, discoverTime)
	defer cancel()
	if before.Unknown != "" {
		if err := f.unknown(ctx, s.Name, before.AuthServer, before.Unknown); err != nil {
			return way{}, problem(err, "The store of accounts does not answer")
		}
	}
	by, err := f.web(s)
	if err != nil {
		return way{}, problem(err, "The address of the server is not one for sign-ins")
	}
	defer by.Close()
	p, err := s.discover(ctx, by)
	if err != nil {
		return way{}, err
	}
	more := before.Wanted
	if len(more) > 0 { // what the user had must not be lost
		more = append(scopesIn(before.Scope), more...)
	}
	for _, scope := range more {
		if isScope(scope) && !slices.Contains(p.scopes, scope) {
			p.scopes = append(p.scopes, scope)
		}
	}
	is, err := f.clientAt(ctx, by, s, p, who)
	if err != nil {
		return way{}, err
	}
	b := begun{
		Server: s.Name, URL: s.URL, Issuer: p.issuer, NamesItself: p.namesItself, TokenURL: p.tokenURL,
		RevokeURL: p.revokeURL, Resource: p.resource,
		Scopes: p.scopes, Client: is, Verifier: oauth2.GenerateVerifier(), Ticket: ticket,
	}
	if s.NoResource {
		b.Resource = ""
	}
	id := rand.Text()
	value, err := json.Marshal(b)
	if err == nil {
		err = f.Store.PutOf(ctx, account(who, ""), stateRoom+id, value, longest)
	}
	if err == nil && is.Registered {
		err = f.Store.Put(ctx, f.sent(who, s.Name, p.issuer), []byte(is.ID), sentFor)
	}
	if err != nil {
		return way{}, problem(err, "The store of accounts does not answer")
	}
	state := f.Key.Seal([]byte(id), f.bound(s.Name, who, browser)...)
	at := f.oauth(b, p.authURL).AuthCodeURL(state, append(b.target(), oauth2.S256ChallengeOption(b.Verifier))...)
	return way{URL: at, Host: hostOf(p.authURL), Scopes: p.scopes}, nil
}

// stateRoom begins the names of sign-ins that have begun.
const stateRoom = "state "

// bound is what a state is good for: the callback of one server, for one user in one browser.
func (f *Flow) bound(server string, who vault.Owner, browser string) []string {
	return []string{"account state", f.redirect(server), who.Issuer, who.User, browser}
}

// ended is a sign-in that has come back. Without an error its grant is good.
type ended struct {
	server, ticket string
	grant          vault.Grant
}

// end finishes a sign-in with the answer of an authorization server at the callback of a server. The
// user is the one who is signed in at the gateway in this browser. Errors are a *Problem; the server
// and the ticket are known if the answer belongs to a sign-in of this user.
func (f *Flow) end(ctx context.Context, server string, answer url.Values, who vault.Owner, browser string,
	find func(name string) (Server, bool)) (e ended, err error) {
	id, err := f.Key.Open(answer.Get("state"), f.bound(server, who, browser)...)
	if err != nil || len(answer["state"]) != 1 {
		return e, problem(nil, "This sign-in has not begun in this browser, or somebody else began it. Begin again")
	}
	value, err := f.Store.Take(ctx, stateRoom+string(id))
	var b begun
	switch {
	case errors.Is(err, expiring.ErrNone):
		return e, problem(nil, "This sign-in is over, or it began too long ago. Begin again")
	case err != nil:
		return e, problem(err, "The store of accounts does not answer")
	case json.Unmarshal(value, &b) != nil:
		return e, problem(nil, "This sign-in is over, or it began too long ago. Begin again")
	}
	e.server, e.ticket = b.Server, b.Ticket
	// users can write that themselves: the next sign-in asks the token endpoint
	if b.Client.Registered && !isUnknown(answer.Get("error")) {
		_ = f.Store.Drop(ctx, f.sent(who, b.Server, b.Issuer)) // at worst, the next sign-in asks in vain
	}
	s, ok := find(b.Server)
	if !ok || s.URL != b.URL {
		return e, problem(nil, "The server is not there any more")
	}
	iss := answer["iss"]
	switch {
	case len(iss) > 1, len(iss) == 1 && !mcp.SameIdentifier(iss[0], b.Issuer), len(iss) == 0 && b.NamesItself: // RFC 9207 §2.4: whatever else it says
		return e, problem(errors.New("iss is not the issuer that was asked"),
			"The answer is from another authorization server than the one that was asked")
	case answer.Has("error"):
		return e, &declinedError{problem(errors.New(codeOf(answer.Get("error"))),
			"The authorization server has refused the sign-in (%s)", codeOf(answer.Get("error")))}
	case len(answer["code"]) != 1 || answer.Get("code") == "":
		return e, problem(nil, "The answer of the authorization server has no code")
	}
	e.grant, err = f.exchange(ctx, s, b, answer.Get("code"))
	return e, err
}

// declinedError is a sign-in that the user, or the authorization server, has refused.
type declinedError struct{ *Problem }

// Unwrap returns the problem.
func (e *declinedError) Unwrap() error { return e.Problem }

// exchange gets tokens for a code.
func (f *Flow) exchange(ctx context.Context, s Server, b begun, code string) (vault.Grant, error) {
	by, err := f.web(s)
	if err != nil {
		return vault.Grant{}, problem(err, "The address of the server is not one for sign-ins")
	}
	defer by.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*requestTime)
	defer cancel()
	const failed = "The authorization server of this server gives no token"
	token, err := f.oauth(b, "").Exchange(context.WithValue(ctx, oauth2.HTTPClient,
		&http.Client{Transport: safehttp.RoundTripper(by.Do)}), code,
		append(b.target(), oauth2.VerifierOption(b.Verifier))...)
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if b.Client.Registered && isUnknown(refused.ErrorCode) {
			err = errors.Join(errors.New("it does not know Gatehouse any more, which registers again"),
				f.unknown(ctx, b.Server, b.Issuer, b.Client.ID))
		} else { // its answer may have anything in it
			err = fmt.Errorf("HTTP %d %s", refused.Response.StatusCode, codeOf(refused.ErrorCode))
		}
		return vault.Grant{}, problem(err, failed)
	}
	if err != nil {
		return vault.Grant{}, problem(err, failed)
	}
	if !strings.EqualFold(token.Type(), "Bearer") || !isToken(token.AccessToken, maxToken) ||
		token.RefreshToken != "" && !isToken(token.RefreshToken, maxRefresh) {
		return vault.Grant{}, problem(errors.New("what it gives is not a bearer token in visible ASCII"), failed)
	}
	scopes := b.Scopes
	if given, ok := token.Extra("scope").(string); ok && given != "" {
		scopes = scopesIn(given)
	}
	return vault.Grant{
		AccessToken: token.AccessToken, RefreshToken: token.RefreshToken, Expires: token.Expiry,
		Scope:      strings.Join(scopes, " "),
		AuthServer: b.Issuer, TokenURL: b.TokenURL, RevokeURL: b.RevokeURL,
		ClientID: b.Client.ID, ClientSecret: mcp.Secret(b.Client.Secret), ClientAuth: b.Client.Auth,
		Registered: b.Client.Registered, Resource: b.Resource, URL: s.URL,
	}, nil
}

func isToken(text string, most int) bool {
	return text != "" && len(text) <= most && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// oauth is the configuration of golang.org/x/oauth2 for a sign-in.
func (f *Flow) oauth(b begun, authURL string) *oauth2.Config {
	style := oauth2.AuthStyleInParams
	if b.Client.Auth == vault.AuthBasic {
		style = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{
		ClientID: b.Client.ID, ClientSecret: b.Client.Secret, RedirectURL: f.redirect(b.Server),
		Scopes:   slices.Clone(b.Scopes),
		Endpoint: oauth2.Endpoint{AuthURL: authURL, TokenURL: b.TokenURL, AuthStyle: style},
	}
}
