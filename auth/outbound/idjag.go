package outbound

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// Enterprise-managed authorization: an identity provider gives an identity assertion for a user's
// token (ID-JAG), for which the authorization server of the upstream gives an access token.
const (
	grantJWT  = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	typeIDJAG = "id-jag"
	jagTyp    = "oauth-id-jag+jwt"
	notAToken = "N_A" // the token_type of an assertion
)

// Grant is how the gateway is registered at the authorization server of an upstream.
type Grant struct {
	// TokenURL is the token endpoint there: https, or http on a loopback address. Required.
	TokenURL string `yaml:"token_url"`
	// ClientID is what the gateway is registered as there; assertions have to name it. Required.
	ClientID string `yaml:"client_id"`
	// ClientSecret proves that it is. Required.
	ClientSecret mcp.Secret `yaml:"client_secret"`
	// ClientAuth is how ClientSecret is sent: client_secret_basic or client_secret_post. Default
	// client_secret_basic.
	ClientAuth string `yaml:"client_auth"`
}

func (c Config) validateIDJAG() (found problems.List) {
	if err := checkURL(c.AuthorizationServer); err != nil {
		found.Add("authorization_server: %w: the assertions are for it", err)
	}
	found.When(c.Resource != nil && *c.Resource == "",
		"resource: type id_jag cannot leave it out: the assertions are for this upstream alone")
	found.At("grant: token_url", checkURL(c.Grant.TokenURL))
	found.When(c.Grant.ClientID == "" || c.Grant.ClientSecret == "",
		"grant: client_id and client_secret: are needed for type id_jag: the gateway's registration at authorization_server")
	if how := c.Grant.ClientAuth; how != "" && how != authBasic && how != authPost {
		found.Add("grant: client_auth: %q: want %s or %s", how, authBasic, authPost)
	}
	return found
}

// granting trades assertions for tokens at the authorization server of the upstream.
type granting struct {
	client   *safehttp.Client // of its own: what is trusted there is trusted nowhere else
	endpoint *endpoint
}

func newGranting(c Config, route egress.Config) (*granting, error) {
	client, err := safehttp.New(safehttp.Options{Trust: []string{c.Grant.TokenURL}, Timeout: askTimeout,
		MaxBytes: maxAnswer, Route: route})
	if err != nil {
		return nil, err
	}
	at, err := newEndpoint(Config{TokenURL: c.Grant.TokenURL, ClientID: c.Grant.ClientID,
		ClientSecret: c.Grant.ClientSecret, ClientAuth: c.Grant.ClientAuth}, client.Do)
	return &granting{client, at}, err
}

// grant gets an assertion for a user's token, and a token of the upstream for that. exchange is the
// form of an exchange.
func (c *Credentials) grant(ctx context.Context, exchange url.Values, subject string) (answer, error) {
	exchange.Set("requested_token_type", tokenTypePrefix+typeIDJAG)
	form := c.target(exchange)
	form.Set("audience", c.cfg.AuthorizationServer)
	jag, err := c.ask(ctx, form)
	if err != nil {
		return jag, err
	}
	if err := c.checkAssertion(jag, subject, time.Now()); err != nil {
		c.log.Warn("assertion not used", failure.TokenRefused.Attr(), "cause", err)
		return answer{}, unusable(err)
	}
	a, err := c.askAt(ctx, c.granting.endpoint, url.Values{"grant_type": {grantJWT}, "assertion": {jag.token},
		"resource": {c.resource}})
	if err == nil && (a.token == subject || a.token == jag.token) {
		err = unusable(errors.New("the authorization server gave back what it got"))
	}
	return a, err
}

// checkAssertion makes sure that an assertion is one, and for this upstream: it is not verified,
// since it comes from its issuer, but it is not passed on to another server than its own.
func (c *Credentials) checkAssertion(a answer, subject string, now time.Time) error {
	if a.kind != tokenTypePrefix+typeIDJAG {
		return fmt.Errorf("issued_token_type %q: want %s%s", printable(a.kind, subject, a.token), tokenTypePrefix, typeIDJAG)
	}
	if a.token == subject {
		return errors.New("the issuer gave the user's own token back")
	}
	header, claims := jwtParts(a.token)
	if header == nil || claims == nil || !strings.EqualFold(header.At("typ").Text(), jagTyp) {
		return errors.New("it is no JWT of the type " + jagTyp)
	}
	audiences, ok := audiencesOf(a.token)
	if !ok || len(audiences) != 1 || !mcp.SameIdentifier(audiences[0], c.cfg.AuthorizationServer) {
		return fmt.Errorf("it is for %q: want %q alone", printable(strings.Join(audiences, " ")), c.cfg.AuthorizationServer)
	}
	for _, claim := range []struct{ name, want string }{{"iss", c.cfg.Issuer}, {"client_id", c.cfg.Grant.ClientID},
		{"resource", c.resource}} {
		got, has := claims.Member(claim.name)
		if claim.name == "resource" && !has { // optional in the stable text
			continue
		}
		if got.Text() != claim.want && (claim.name == "client_id" || !mcp.SameIdentifier(got.Text(), claim.want)) {
			return fmt.Errorf("its %s is %q: want %q", claim.name, printable(got.Text()), claim.want)
		}
	}
	if end, err := strconv.ParseFloat(string(claims.At("exp")), 64); err != nil || !(float64(now.Unix()) < end) {
		return errors.New("it has ended, or no end")
	}
	return nil
}

// jwtParts returns header and claims of a JWT, nil if it is none.
func jwtParts(token string) (header, claims mcp.Raw) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, nil
	}
	one, err := base64.RawURLEncoding.DecodeString(parts[0])
	two, err2 := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || err2 != nil {
		return nil, nil
	}
	return object(one), object(two)
}
