package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// longest is how long a person may take to sign in.
	longest = 10 * time.Minute
	// exchangeTime bounds the request for a token.
	exchangeTime = 10 * time.Second
	// maxCookie bounds the value of a cookie, with its name and attributes: browsers drop longer ones.
	maxCookie = 3900
	// maxCookies bounds those of all sign-ins of a browser: some proxies take no header above 8 KB.
	maxCookies = 6000
)

// RefusedError is a sign-in that failed, for the person to read.
type RefusedError struct{ Why string }

// Error returns the reason.
func (e *RefusedError) Error() string { return e.Why }

// Flow is the authorization code flow with PKCE (OAuth 2.1 §4.1) of one client.
type Flow struct {
	Issuer       string
	ClientID     string
	ClientSecret mcp.Secret // "" for a public client
	Scopes       []string
	// Resource is what the token is for (RFC 8707): the gateway.
	Resource string
	// Redirect is the URL to which the issuer sends the browser back.
	Redirect string
	// Cookie is the name of the cookie that ties the flow to the browser, Path its path.
	Cookie, Path string
	// Several says that a browser may be in several sign-ins at a time: each has a cookie of its own.
	Several bool
	// IDToken says that the ID token identifies the person, not the access token.
	IDToken bool
	// Offline asks for a refresh token where the issuer has a scope for it.
	Offline bool
	// Key seals the cookie.
	Key *seal.Key
	// Ended has the sign-ins that have ended.
	Ended *Ended
	// Issuers knows the issuers, and identifies the holders of tokens.
	Issuers *auth.Auth
}

// begun is the state that the browser keeps while its user signs in.
type begun struct {
	State    string    `json:"s"`
	Verifier string    `json:"v"`
	Nonce    string    `json:"n,omitempty"`
	To       string    `json:"t"` // where the user wanted to go
	Until    time.Time `json:"u"`
}

// SignedIn is a sign-in that has ended.
type SignedIn struct {
	Caller mcp.Caller
	// To is what Begin got.
	To string
	// Refresh is for Flow.Again; "" if the issuer gave nothing for it.
	Refresh mcp.Secret
}

// mostEnded bounds the sign-ins that have ended and that are known to have, without Redis. A stranger who
// has others forgotten gains nothing: each belongs to a cookie that its browser has dropped, and its code
// is good once at the issuer.
const mostEnded = 10_000

// Ended remembers ended sign-ins of all replicas, or of this one while Redis does not answer.
type Ended struct{ shared, here *expiring.Store }

// NewEnded makes an Ended in a base.
func NewEnded(base expiring.Base) *Ended {
	return &Ended{
		shared: expiring.New(base, nil, "sign-ins-ended", mostEnded),
		here:   expiring.New(expiring.Base{}, nil, "sign-ins-ended", mostEnded),
	}
}

// end ends a sign-in. It reports whether it had not ended.
func (e *Ended) end(ctx context.Context, state string) (first bool, err error) {
	if first, err = e.shared.Add(ctx, state, nil, longest); err != nil {
		return e.here.Add(ctx, state, nil, longest)
	}
	return first, nil
}

// Begin returns the URL for a sign-in, with more parameters, and sets a cookie that End needs. to
// comes back from End.
func (f *Flow) Begin(w http.ResponseWriter, r *http.Request, to string, more ...oauth2.AuthCodeOption) (string, error) {
	at, err := f.Issuers.Provider(r.Context(), f.Issuer)
	if err != nil {
		return "", err
	}
	b := begun{State: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: to, Until: time.Now().Add(longest)}
	options := append([]oauth2.AuthCodeOption{oauth2.S256ChallengeOption(b.Verifier)}, more...)
	if f.IDToken {
		b.Nonce = rand.Text()
		options = append(options, oauth2.SetAuthURLParam("nonce", b.Nonce))
	}
	plain, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	sealed := f.Key.Seal(plain, f.Redirect)
	if len(sealed) > maxCookie {
		return "", &RefusedError{"The request is too long to be kept in a cookie."}
	}
	f.forgetOld(w, r, maxCookies-len(sealed))
	f.setCookie(w, f.cookie(b.State), sealed, int(longest.Seconds()))
	return f.client(at).AuthCodeURL(b.State, append(options, f.resource()...)...), nil
}

// End finishes the flow with the answer of the issuer. It returns who has signed in. The error is a
// *RefusedError if it is the user's or the issuer's doing.
func (f *Flow) End(w http.ResponseWriter, r *http.Request) (who mcp.Caller, to string, err error) {
	in, err := f.Finish(w, r)
	return in.Caller, in.To, err
}

// Finish is End for callers who want to know more. With an error, SignedIn has To if the answer
// belongs to what this browser began.
func (f *Flow) Finish(w http.ResponseWriter, r *http.Request) (in SignedIn, err error) {
	answer := r.URL.Query()
	b, err := f.begun(r, answer.Get("state"))
	if err != nil {
		return in, err
	}
	f.setCookie(w, f.cookie(b.State), "", -1)
	ctx := r.Context()
	// A kept cookie must not let its holder have the issuer asked about one code after the other.
	switch first, err := f.Ended.end(ctx, b.State); {
	case err != nil:
		return in, fmt.Errorf("the store does not say whether the sign-in has ended: %w", err)
	case !first:
		return in, notBegun()
	}
	in.To = b.To
	at, err := f.Issuers.Provider(ctx, f.Issuer)
	if err != nil {
		return in, err
	}
	iss := answer.Get("iss")
	switch {
	case iss != "" && !mcp.SameIdentifier(iss, f.Issuer) || iss == "" && at.NamesItself: // RFC 9207 §2.4
		return SignedIn{}, &RefusedError{"The answer is from another issuer than the one that was asked."}
	case answer.Get("error") != "":
		return in, &RefusedError{fmt.Sprintf("The issuer has refused the sign-in: %.200s",
			cmp.Or(answer.Get("error_description"), answer.Get("error")))}
	case len(answer["code"]) != 1 || answer.Get("code") == "":
		return in, &RefusedError{"The answer of the issuer has no code."}
	}
	token, err := f.redeem(ctx, at, cmp.Or(mcp.OriginFrom(ctx).Address, r.RemoteAddr), answer.Get("code"), b.Verifier)
	if err != nil {
		return in, err
	}
	in.Refresh = mcp.Secret(token.RefreshToken)
	in.Caller, err = f.who(r, token, b.Nonce)
	return in, err
}

// redeem returns the tokens of a code that came from an address.
func (f *Flow) redeem(ctx context.Context, at *auth.Provider, remote, code, verifier string) (*oauth2.Token, error) {
	done, err := at.Turn(ctx, remote)
	if err != nil {
		return nil, &RefusedError{"Too many sign-ins from this address have failed. Try again in a minute."}
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	token, err := f.client(at).Exchange(through(ctx, at), code, append(f.resource(), oauth2.VerifierOption(verifier))...)
	done(err == nil)
	if isInvalidGrant(err) {
		return nil, &RefusedError{"The issuer does not know the code of this sign-in, or not any more. Sign in again."}
	}
	if err != nil {
		return nil, fmt.Errorf("the issuer gives no token: %w", bare(err))
	}
	return token, nil
}

// who returns the caller that a token identifies.
func (f *Flow) who(r *http.Request, token *oauth2.Token, nonce string) (who mcp.Caller, err error) {
	if f.IDToken {
		id, _ := token.Extra("id_token").(string)
		who, err = f.Issuers.IdentifyIDToken(r.Context(), f.Issuer, id, f.ClientID, nonce)
	} else {
		if !strings.EqualFold(token.Type(), "Bearer") {
			return who, errors.New("the issuer gives another token than a bearer token")
		}
		who, err = f.Issuers.IdentifyToken(r, token.AccessToken)
	}
	// else there would be no telling
	if refused, ok := errors.AsType[*auth.RefusedError](err); ok && refused.Status != http.StatusServiceUnavailable {
		return mcp.Caller{}, &RefusedError{"The gateway does not accept what the issuer gave: " + refused.Text}
	}
	if err == nil && who.Issuer != f.Issuer {
		err = errors.New("the token is of another issuer")
	}
	return who, err
}

// Again asks the issuer whether a user may still sign in, and as whom, with what SignedIn.Refresh
// was. The caller has no subject if the issuer says yes, and nothing more. The error is a
// *RefusedError if the issuer says no.
func (f *Flow) Again(r *http.Request, refresh mcp.Secret) (in SignedIn, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), exchangeTime)
	defer cancel()
	at, err := f.Issuers.Provider(ctx, f.Issuer)
	if err != nil {
		return in, err
	}
	token, err := f.client(at).TokenSource(through(ctx, at), &oauth2.Token{RefreshToken: string(refresh)}).Token()
	if err != nil {
		if isInvalidGrant(err) {
			return in, &RefusedError{"The issuer does not let the user go on without a new sign-in."}
		}
		return in, fmt.Errorf("the issuer gives no token: %w", bare(err))
	}
	in.Refresh = mcp.Secret(cmp.Or(token.RefreshToken, string(refresh)))
	if id, _ := token.Extra("id_token").(string); f.IDToken && id == "" { // OpenID Connect Core §12.2
		return in, nil
	}
	in.Caller, err = f.who(r, token, "")
	return in, err
}

// through sends requests as all of the gateway's requests to issuers are sent.
func through(ctx context.Context, at *auth.Provider) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: at})
}

// resource is the parameter that says what the token is for.
func (f *Flow) resource() []oauth2.AuthCodeOption {
	if f.IDToken || f.Resource == "" {
		return nil
	}
	return []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("resource", f.Resource)}
}

// begun returns what Begin began in this browser.
func (f *Flow) begun(r *http.Request, state string) (b begun, err error) {
	cookie, err := r.Cookie(f.cookie(state))
	if err != nil {
		return b, notBegun()
	}
	plain, err := f.Key.Open(cookie.Value, f.Redirect)
	if err != nil || json.Unmarshal(plain, &b) != nil || time.Now().After(b.Until) ||
		subtle.ConstantTimeCompare([]byte(b.State), []byte(state)) != 1 {
		return b, notBegun()
	}
	return b, nil
}

func notBegun() error {
	return &RefusedError{"This sign-in has not begun in this browser, has ended, or began too long ago. Sign in again."}
}

func (f *Flow) client(at *auth.Provider) *oauth2.Config {
	scopes := f.Scopes
	if f.IDToken {
		scopes = with(scopes, "openid")
	}
	if f.Offline && at.Offline {
		if len(scopes) == 0 { // offline_access says nothing alone (OpenID Connect Core §11)
			scopes = []string{"openid"}
		}
		scopes = with(scopes, "offline_access")
	}
	style := oauth2.AuthStyleInHeader
	if f.ClientSecret == "" {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: f.ClientID, ClientSecret: string(f.ClientSecret), RedirectURL: f.Redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: at.AuthURL, TokenURL: at.TokenURL, AuthStyle: style},
	}
}

// with adds a scope.
func with(scopes []string, scope string) []string {
	if slices.Contains(scopes, scope) {
		return scopes
	}
	return append(slices.Clone(scopes), scope)
}

// cookie is the name of the cookie of a sign-in.
func (f *Flow) cookie(state string) string {
	if !f.Several {
		return f.Cookie
	}
	sum := sha256.Sum256([]byte(state))
	return f.Cookie + "-" + hex.EncodeToString(sum[:8])
}

// forgetOld ends the sign-ins of a browser that began first, until the others have room. Browsers send
// older cookies first (RFC 6265 §5.4).
func (f *Flow) forgetOld(w http.ResponseWriter, r *http.Request, room int) {
	for _, c := range slices.Backward(r.Cookies()) {
		if !f.Several || !strings.HasPrefix(c.Name, f.Cookie+"-") {
			continue
		}
		if room -= len(c.Value); room < 0 {
			f.setCookie(w, c.Name, "", -1)
		}
	}
}

func (f *Flow) setCookie(w http.ResponseWriter, name, value string, age int) {
	u, err := url.Parse(f.Redirect)
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: f.Path, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: err != nil || u.Scheme == "https",
	})
}

// isInvalidGrant reports whether a token endpoint refuses a code or a refresh token (RFC 6749 §5.2).
func isInvalidGrant(err error) bool {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	return ok && refused.ErrorCode == "invalid_grant"
}

// bare is an error of a token endpoint without its answer, which may have anything in it.
func bare(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := ""
		if refused.Response != nil {
			status = fmt.Sprintf("HTTP %d ", refused.Response.StatusCode)
		}
		return fmt.Errorf("%s%.100q", status, refused.ErrorCode)
	}
	return err
}
