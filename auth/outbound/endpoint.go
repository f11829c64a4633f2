package outbound

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/retryafter"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

const (
	// askTimeout bounds a request to a token endpoint.
	askTimeout = 10 * time.Second
	maxAnswer  = 256 << 10
	maxToken   = 16 << 10
	// atOnce is how many requests run at a time.
	atOnce = 8

	typeForm            = "application/x-www-form-urlencoded"
	clientAssertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// endpoint is the token endpoint (RFC 6749 §3.2).
type endpoint struct {
	url      string
	clientID string
	secret   string
	auth     string
	signer   jose.Signer // for private_key_jwt
	audience string      // of its assertions
	send     func(*http.Request) (*safehttp.Response, error)
	wants    string        // the token_type of good answers
	turns    chan struct{} // holds one for each request under way

	mu    sync.Mutex // guards pause
	pause pause      // after a failure that all would meet
}

// answer is a successful answer.
type answer struct {
	token    string
	lifetime time.Duration // 0 when it did not say
	kind     string        // issued_token_type
}

func newEndpoint(c Config, send func(*http.Request) (*safehttp.Response, error)) (*endpoint, error) {
	e := &endpoint{
		url: c.TokenURL, clientID: c.ClientID, secret: string(c.ClientSecret), auth: c.ClientAuth,
		audience: cmp.Or(c.AssertionAudience, c.TokenURL), send: send, wants: "Bearer", turns: make(chan struct{}, atOnce),
	}
	if c.PrivateKey != "" {
		signer, err := newSigner(c)
		if err != nil {
			return nil, err
		}
		e.auth, e.signer = authJWT, signer
	}
	return e, nil
}

// paused returns the error of a recent failure, nil when requests may be made.
func (e *endpoint) paused(now time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pause.over(now) {
		return nil
	}
	return e.pause.err
}

// ask asks for a token. Errors are an *Error.
func (e *endpoint) ask(ctx context.Context, form url.Values) (answer, error) {
	select {
	case e.turns <- struct{}{}:
		defer func() { <-e.turns }()
	case <-ctx.Done():
		return answer{}, silent(context.Cause(ctx))
	}
	if err := e.paused(time.Now()); err != nil { // has failed for others since
		return answer{}, err
	}
	a, err := e.try(ctx, form)
	e.mu.Lock()
	defer e.mu.Unlock()
	if failure, ok := errors.AsType[*Error](err); ok && failure.shared {
		e.pause.failed(time.Now(), err, failure.after)
	} else {
		e.pause.reset()
	}
	return a, err
}

func silent(err error) *Error {
	return &Error{Why: "the token endpoint does not answer; try again later", cause: err, shared: true}
}

func (e *endpoint) try(ctx context.Context, form url.Values) (answer, error) {
	req, secrets, err := e.request(ctx, form)
	if err != nil {
		return answer{}, &Error{Why: "the gateway could not make a request for a token; its operator has to look at the log",
			cause: err, shared: true}
	}
	resp, err := e.send(req)
	switch {
	case errors.Is(err, safehttp.ErrRedirect), errors.Is(err, safehttp.ErrTooLarge), errors.Is(err, safehttp.ErrForbidden):
		return answer{}, unusable(err)
	case err != nil:
		return answer{}, silent(err)
	case resp.Status != http.StatusOK:
		return answer{}, refusal(resp, secrets)
	}
	return readAnswer(resp.Body, e.wants)
}

// request makes the request with the client's proof (RFC 6749 §2.3, RFC 7523 §2.2). It also returns
// its secrets.
func (e *endpoint) request(ctx context.Context, form url.Values) (*http.Request, []string, error) {
	body := maps.Clone(form)
	basic := ""
	secrets := []string{form.Get("subject_token"), form.Get("assertion"), e.secret}
	switch e.auth {
	case authJWT:
		signed, err := assertion(e.signer, e.clientID, e.audience, time.Now())
		if err != nil {
			return nil, nil, err
		}
		body.Set("client_id", e.clientID)
		body.Set("client_assertion_type", clientAssertionType)
		body.Set("client_assertion", signed)
		secrets = append(secrets, signed)
	case authPost:
		body.Set("client_id", e.clientID)
		body.Set("client_secret", e.secret)
	default:
		basic = base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(e.clientID) + ":" + url.QueryEscape(e.secret)))
		secrets = append(secrets, basic)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, strings.NewReader(body.Encode()))
	if err != nil {
		return nil, nil, errors.New("token_url cannot be parsed")
	}
	req.Header.Set("Content-Type", typeForm)
	req.Header.Set("Accept", "application/json")
	if basic != "" {
		req.Header.Set("Authorization", "Basic "+basic)
	}
	return req, secrets, nil
}

// refusal returns the error for a status that is not 200 (RFC 6749 §5.2).
func refusal(resp *safehttp.Response, secrets []string) *Error {
	code, description := "", ""
	if body := object(resp.Body); body != nil {
		if code = body.At("error").Text(); !codePattern.MatchString(code) {
			code = ""
		}
		description = printable(body.At("error_description").Text(), secrets...)
	}
	what := cmp.Or(code, fmt.Sprintf("HTTP %d", resp.Status))
	e := &Error{code: code, cause: fmt.Errorf("HTTP %d %s: %s", resp.Status, code, description)}
	switch {
	case code == "invalid_client" || code == "unauthorized_client" || code == "unsupported_grant_type" ||
		resp.Status == http.StatusUnauthorized && !ofGrant(code):
		e.Why, e.shared = "the token endpoint refused the gateway itself ("+what+
			"); the operator of the gateway has to correct its credentials", true
	case resp.Status == http.StatusTooManyRequests, resp.Status/100 == 5:
		e.Why, e.shared = fmt.Sprintf("the token endpoint has a problem (HTTP %d); try again later", resp.Status), true
		e.after = retryafter.Read(resp.Header, time.Now(), mostPause)
	default:
		e.Why = "the token endpoint refused to issue a token (" + what +
			"); the operator of the gateway can see why in its log"
	}
	return e
}

// ofGrant reports whether an error code is about the grant, such as one user's token, and not
// about the client: some endpoints send these with 401 too.
func ofGrant(code string) bool {
	switch code {
	case "invalid_grant", "invalid_token", "invalid_request", "invalid_target", "invalid_scope", "access_denied":
		return true
	}
	return false
}

func unusable(err error) *Error {
	return &Error{Why: "the token endpoint answered something that is not a usable token; the operator of the gateway has to look at its settings", cause: err}
}

// readAnswer reads a successful answer (RFC 6749 §5.1).
func readAnswer(text []byte, wants string) (answer, error) {
	body := object(text)
	if body == nil {
		return answer{}, unusable(errors.New("the answer is not a JSON object"))
	}
	if kind := body.At("token_type").Text(); !strings.EqualFold(kind, wants) {
		return answer{}, unusable(fmt.Errorf("token_type %s: want %s", printable(kind), wants))
	}
	token := body.At("access_token").Text()
	if len(token) > maxToken || !tokenPattern.MatchString(token) {
		return answer{}, unusable(fmt.Errorf("access_token: want visible ASCII of at most %d bytes", maxToken))
	}
	return answer{token: token, kind: body.At("issued_token_type").Text(), lifetime: readLifetime(body.At("expires_in"))},
		nil
}

// readLifetime reads expires_in, which some write as a string. It is 0 where there is none or
// it makes no sense.
func readLifetime(raw mcp.Raw) time.Duration {
	text, isString := raw.StringValue()
	if !isString {
		text = string(raw)
	}
	seconds, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), !(seconds >= 1):
		return 0
	case seconds > longestLife.Seconds():
		return longestLife
	}
	return time.Duration(seconds * float64(time.Second))
}

// object returns text as a JSON object, nil if it is none.
func object(text []byte) mcp.Raw {
	text = bytes.TrimSpace(text)
	if !json.Valid(text) || !mcp.Raw(text).IsObject() {
		return nil
	}
	return text
}
