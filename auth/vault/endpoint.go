package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/retryafter"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

const (
	// maxAnswer bounds an answer of an authorization server.
	maxAnswer = 256 << 10
	// maxGrant bounds a grant as it is kept, in bytes: the store takes little more.
	maxGrant = 48 << 10
	// revokeTime bounds the revocation of both tokens of a grant.
	revokeTime = 5 * time.Second
)

var (
	tokenPattern = regexp.MustCompile(`^[\x21-\x7e]+$`)
	codePattern  = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,64}$`)
)

// answerError is a refresh that failed.
type answerError struct {
	why     string // for the user
	cause   error  // for the operator
	revoked bool   // the grant is worth nothing any more
	unknown bool   // nor is the gateway's own registration
	after   time.Duration
}

func (e *answerError) Error() string { return e.cause.Error() }

// style is how the client proves who it is. It is never found out by trying: a refresh token that
// rotates may be used once.
func (g Grant) style() oauth2.AuthStyle {
	switch how := g.ClientAuth; {
	case how == AuthBasic, how == "" && g.ClientSecret != "":
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// grant refreshes a token (RFC 6749 §6, RFC 8707 §2.2) and returns what there is afterwards.
func (v *Vault) grant(ctx context.Context, at place, r record) (Grant, *answerError) {
	const operator = "the gateway could not ask for a new token; its operator has to look at the log"
	g := r.Grant
	client, err := v.client(at.server)
	if err != nil {
		return g, &answerError{why: operator, cause: err}
	}
	done, err := v.turn(ctx, g.TokenURL)
	if err != nil {
		return g, &answerError{why: "the authorization server of this server is slow; try again later", cause: err}
	}
	defer done()
	params := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.RefreshToken}}
	if g.Resource != "" {
		params.Set("resource", g.Resource)
	}
	// The token source of oauth2.Config has no parameters; this one has, and its grant type can be
	// another one.
	asks := clientcredentials.Config{ClientID: g.ClientID, ClientSecret: string(g.ClientSecret), TokenURL: g.TokenURL,
		AuthStyle: g.style(), EndpointParams: params}
	got, err := asks.Token(context.WithValue(ctx, oauth2.HTTPClient,
		&http.Client{Transport: safehttp.RoundTripper(client.Do)}))
	if err != nil {
		return g, judge(err, g)
	}
	unusable := &answerError{why: "the authorization server of this server gave something that is not a usable token",
		cause: errors.New("the answer is not a bearer token of usual size")}
	if !strings.EqualFold(got.Type(), "Bearer") || len(got.AccessToken) > maxToken || len(got.RefreshToken) > maxToken ||
		!tokenPattern.MatchString(got.AccessToken) {
		return g, unusable
	}
	g.AccessToken, g.RefreshToken, g.Expires = got.AccessToken, cmp.Or(got.RefreshToken, g.RefreshToken), got.Expiry
	if scope, ok := got.Extra("scope").(string); ok && scope != "" {
		g.Scope = scope
	}
	if text, err := json.Marshal(g); err != nil || len(text) > maxGrant { // the store would never take it
		return r.Grant, unusable
	}
	return g, nil
}

// judge says what an error of a refresh means.
func judge(err error, g Grant) *answerError {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || refused.Response == nil {
		return &answerError{why: "the authorization server of this server does not answer; try again later", cause: bare(err)}
	}
	code, status := refused.ErrorCode, refused.Response.StatusCode
	if !codePattern.MatchString(code) {
		code = ""
	}
	e := &answerError{cause: fmt.Errorf("HTTP %d %s: %s", status, code,
		printable(refused.ErrorDescription, g.RefreshToken, string(g.ClientSecret)))}
	switch {
	case code == "invalid_grant":
		e.revoked = true
	case g.Registered && (code == "invalid_client" || code == "unauthorized_client"):
		e.revoked, e.unknown = true, true
	case code == "" && (status == http.StatusTooManyRequests || status/100 == 5), code == "temporarily_unavailable",
		code == "server_error":
		e.why = fmt.Sprintf("the authorization server of this server has a problem (HTTP %d); try again later", status)
	default:
		e.why = "the authorization server of this server refuses the gateway (" +
			cmp.Or(code, fmt.Sprintf("HTTP %d", status)) + "); its operator has to correct its credentials there"
	}
	e.after = retryafter.Read(refused.Response.Header, time.Now(), 5*mostPause)
	return e
}

// bare is an error without what an URL may have in it.
func bare(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		return at.Err
	}
	return err
}

// revoke has an authorization server revoke the tokens of an account (RFC 7009), as far as it
// answers. A stop of the gateway waits for it, since the tokens are kept nowhere else.
func (v *Vault) revoke(ctx context.Context, at place, r record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTime)
	defer cancel()
	g := r.Grant
	if g.RevokeURL == "" {
		return
	}
	client, err := v.client(at.server)
	// The access token ends with the refresh token where it can (§2.1); where it cannot, it has to
	// be named.
	for _, one := range []struct{ token, hint string }{{g.RefreshToken, "refresh_token"},
		{g.AccessToken, "access_token"}} {
		if err == nil && one.token != "" {
			err = revokeOne(ctx, client, g, one.token, one.hint)
		}
	}
	if err != nil {
		v.warn(at, failure.TokenRefused, "tokens of a user who signed out were forgotten, but not revoked", err)
	}
}

func revokeOne(ctx context.Context, client *safehttp.Client, g Grant, token, hint string) error {
	form := url.Values{"token": {token}, "token_type_hint": {hint}}
	if g.style() == oauth2.AuthStyleInParams {
		form.Set("client_id", g.ClientID)
		if g.ClientSecret != "" {
			form.Set("client_secret", string(g.ClientSecret))
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.RevokeURL, strings.NewReader(form.Encode()))
	if err != nil {
		return errors.New("the revocation endpoint is no URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if g.style() == oauth2.AuthStyleInHeader {
		req.SetBasicAuth(url.QueryEscape(g.ClientID), url.QueryEscape(string(g.ClientSecret)))
	}
	resp, err := client.Do(req)
	if err == nil && resp.Status/100 != 2 {
		err = fmt.Errorf("the revocation endpoint answers HTTP %d", resp.Status)
	}
	return err
}

// printable makes foreign text fit for a log, without what is secret to us.
func printable(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "<secret>")
		}
	}
	return fmt.Sprintf("%.200s", strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text))
}
