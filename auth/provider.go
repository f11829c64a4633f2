package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// Provider is an issuer as a client that signs users in there sees it.
type Provider struct {
	// Issuer is its identifier, AuthURL and TokenURL are its endpoints.
	Issuer, AuthURL, TokenURL string
	// NamesItself says that the answer to an authorization request has iss (RFC 9207 §2.3).
	NamesItself bool
	// Offline says that scope offline_access gives a refresh token (OpenID Connect Core §11).
	Offline bool
	// Documents says that it accepts URLs of documents as ids, Registers that clients can register
	// themselves. Public says that it has tokens for clients without a secret.
	Documents, Registers, Public bool

	// RoundTripper sends requests to the issuer, as all of the gateway's requests to issuers are sent.
	safehttp.RoundTripper

	codes *suspects
}

// Turn returns when a code that came from an address may be redeemed. The caller calls done after that,
// with whether the issuer knew the code. Any stranger can begin to sign in and come back with a made-up
// code: those who do so again and again wait for each other, as with made-up tokens. Each code counts as
// made up until the issuer has known it, so it is no use to send many at once.
func (p *Provider) Turn(ctx context.Context, remote string) (done func(known bool), err error) {
	from := networkOf(remote)
	free, err := p.codes.wait(ctx, from)
	if err != nil {
		return nil, err
	}
	p.codes.bad(from)
	return func(known bool) {
		free()
		if known {
			p.codes.good(from)
		}
	}, nil
}

// providerFor is how long the metadata of a Provider are used.
const providerFor = 5 * time.Minute

// knownProvider is a Provider with metadata that were read. Any stranger can begin to sign in, and
// must not make the gateway ask the issuer each time.
type knownProvider struct {
	*Provider
	until time.Time
}

// Provider reads the metadata of one of the configured issuers, or takes them from the last minutes.
func (a *Auth) Provider(ctx context.Context, issuer string) (*Provider, error) {
	iss := a.issuers[mcp.Identifier(issuer)]
	if iss == nil {
		return nil, fmt.Errorf("%.200q is none of auth.issuers", issuer)
	}
	if known := iss.provider.Load(); known != nil && time.Now().Before(known.until) {
		return known.Provider, nil
	}
	found, err, _ := iss.asking.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime) // others wait for it, too
		defer cancel()
		p, err := provider(ctx, iss.client, issuer)
		if err == nil {
			p.codes = iss.codes
			iss.provider.Store(&knownProvider{p, time.Now().Add(providerFor)})
		}
		return p, err
	})
	p, _ := found.(*Provider)
	return p, err
}

func provider(ctx context.Context, client Client, issuer string) (*Provider, error) {
	body, err := document(ctx, client, issuer)
	if err != nil {
		return nil, err
	}
	doc, err := ownDocument(body, issuer, "authorization_endpoint", "token_endpoint",
		"authorization_response_iss_parameter_supported", "scopes_supported",
		"client_id_metadata_document_supported", "registration_endpoint", "token_endpoint_auth_methods_supported")
	if err != nil {
		return nil, err
	}
	p := &Provider{Issuer: issuer, RoundTripper: client.Do}
	if p.AuthURL, err = endpoint(doc, "authorization_endpoint"); err != nil {
		return nil, err
	}
	if p.TokenURL, err = endpoint(doc, "token_endpoint"); err != nil {
		return nil, err
	}
	if p.AuthURL == "" || p.TokenURL == "" {
		return nil, errors.New("the metadata name no authorization_endpoint and token_endpoint: nobody can sign in there")
	}
	named, _ := doc.Member("authorization_response_iss_parameter_supported")
	p.NamesItself = string(named) == "true"
	scopes, _ := doc.Member("scopes_supported")
	offered, _ := textList(scopes)
	p.Offline = slices.Contains(offered, offlineAccess)
	documents, _ := doc.Member("client_id_metadata_document_supported")
	registration, _ := doc.Member("registration_endpoint")
	p.Documents, p.Registers = string(documents) == "true", registration.Text() != ""
	methods, _ := doc.Member("token_endpoint_auth_methods_supported")
	ways, _ := textList(methods)
	p.Public = slices.Contains(ways, "none")
	return p, nil
}

// IdentifyToken is Identify for a token that did not come in a header of a request. The request is the
// one in which its owner sent what it was got with. The gateway itself got the token, so it need not be
// bound to a key where dpop is required.
func (a *Auth) IdentifyToken(r *http.Request, token string) (mcp.Caller, error) {
	with := r.Clone(r.Context())
	with.Header.Set("Authorization", "Bearer "+token)
	own, unbound := *a, *a.proofs
	if unbound.mode == DPoPRequired {
		unbound.mode = DPoPAccepted
	}
	own.proofs = &unbound
	return own.Identify(with)
}

// IdentifyIDToken returns the user of an ID token (OpenID Connect Core §2) that a client of an issuer
// got. nonce is that of the client's request, "" for a token that came without one. The caller has
// no scopes. The error is a *RefusedError.
func (a *Auth) IdentifyIDToken(ctx context.Context, issuer, token, client, nonce string) (mcp.Caller, error) {
	caller, ref := a.identifyIDToken(ctx, issuer, token, client, nonce)
	if ref != nil {
		a.log.DebugContext(ctx, "ID token refused", ref.attrs()...)
		return mcp.Caller{}, &RefusedError{ref.status, ref.name, ref.text}
	}
	return caller, nil
}

func (a *Auth) identifyIDToken(ctx context.Context, issuer, token, client, nonce string) (mcp.Caller, *refusal) {
	iss, j, ref := a.statement(issuer, token)
	if ref != nil {
		return mcp.Caller{}, ref
	}
	if given, _ := member(j.claims, "nonce"); given != nonce && nonce != "" {
		return mcp.Caller{}, badToken("the ID token is for another sign-in", nil)
	}
	if party, has := j.claims.Member("azp"); has && party.Text() != client {
		return mcp.Caller{}, badToken("the ID token is for another client", nil)
	}
	to := iss.rules
	to.Audiences, to.MaxTokenLifetime, to.RequireSoleAudience = []string{client}, 0, false
	return a.identifyBy(ctx, iss, to, token, j)
}

// Assertion is the content of an identity assertion (ID-JAG).
type Assertion struct {
	// Caller is the user. It has the scopes that the assertion names, if Scoped.
	Caller mcp.Caller
	Scoped bool
	// ID is its jti: it is good once. Until is when it ends.
	ID    string
	Until time.Time
	// Resource is what a token is wanted for, "" if it does not say.
	Resource string
}

// typAssertion is the type of an identity assertion, maxAssertionLife the longest life of one.
const (
	typAssertion     = "oauth-id-jag+jwt"
	maxAssertionLife = time.Hour
)

// IdentifyAssertion returns the content of an issuer's identity assertion, which a client has for the
// authorization server audience (enterprise-managed-authorization §4.3, §5.1). The error is a
// *RefusedError.
func (a *Auth) IdentifyAssertion(ctx context.Context, issuer, token, client, audience string) (Assertion, error) {
	said, ref := a.identifyAssertion(ctx, issuer, token, client, audience)
	if ref != nil {
		a.log.DebugContext(ctx, "identity assertion refused", ref.attrs()...)
		return Assertion{}, &RefusedError{ref.status, ref.name, ref.text}
	}
	return said, nil
}

func (a *Auth) identifyAssertion(ctx context.Context, issuer, token, client,
	audience string) (said Assertion, _ *refusal) {
	iss, j, ref := a.statement(issuer, token)
	if ref != nil {
		return said, ref
	}
	id, hasID := member(j.claims, "jti")
	of, _ := member(j.claims, "client_id")
	_, issued := j.claims.Member("iat")
	resource, has := j.claims.Member("resource")
	text, plain := plainText(resource)
	_, bound := j.claims.Member("cnf")
	switch {
	case normalTyp(j.typ) != typAssertion:
		return said, badToken("the token is not an identity assertion", nil)
	case of != client:
		return said, badToken("the assertion is for another client", nil)
	case !hasID || id == "" || len(id) > maxNameBytes:
		return said, badToken("the assertion has no jti", nil)
	case !issued:
		return said, badToken("the assertion does not say when it was issued", nil)
	case has && !plain:
		return said, badToken("the assertion's resource cannot be read", nil)
	case bound:
		return said, badToken("the assertion is bound to a key, which cannot be checked here", nil)
	}
	to := iss.rules
	to.Audiences, to.MaxTokenLifetime, to.RequireSoleAudience = []string{audience}, maxAssertionLife, true
	said = Assertion{ID: id, Resource: text}
	_, said.Scoped = j.claims.Member("scope")
	said.Caller, ref = a.identifyBy(ctx, iss, to, token, j)
	said.Until = said.Caller.Expires
	return said, ref
}

// statement reads a JWT of an issuer that is not an access token.
func (a *Auth) statement(of, token string) (*issuer, jws, *refusal) {
	iss := a.issuers[mcp.Identifier(of)]
	if iss == nil || len(token) > maxTokenBytes || formOf(token) != formJWT {
		return nil, jws{}, badToken("there is no such token", nil)
	}
	j, ref := splitJWT(token, a.exact)
	return iss, j, ref
}

// identifyBy identifies the caller of such a JWT by rules of its own. It is for a client, not for the
// gateway: what the gateway requires of access tokens does not apply.
func (a *Auth) identifyBy(ctx context.Context, iss *issuer, to rules, token string, j jws) (mcp.Caller, *refusal) {
	to.AllowedClients, to.at, to.required, to.implied, to.Scopes = nil, nil, nil, nil, nil
	if !slices.Contains(to.Algorithms, j.alg) {
		return mcp.Caller{}, badToken("the token's algorithm is not accepted", nil)
	}
	id, ref := to.judge(j.claims, time.Now())
	if ref == nil && id.forbidden != nil {
		ref = a.forbid(id)
	}
	if ref == nil {
		_, ref = iss.checkSignature(ctx, token, j)
	}
	return id.caller, ref
}
