package accounts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

const (
	// sentFor is how long the gateway remembers a user who was sent away and has not come back.
	sentFor = 24 * time.Hour
	// askEvery is the least time between two questions to an authorization server whether it knows the gateway.
	askEvery = time.Minute
)

// unknown forgets a registration that an issuer no longer knows, unless there is already another
// one.
func (f *Flow) unknown(ctx context.Context, server, issuer, id string) error {
	var known client
	value, err := f.Store.Get(ctx, f.registration(server, issuer))
	if err == nil && json.Unmarshal(value, &known) == nil && known.ID == id {
		err = f.Store.Drop(ctx, f.registration(server, issuer))
	}
	if errors.Is(err, expiring.ErrNone) {
		return nil
	}
	return err
}

// isUnknown reports whether an error code says that the client is not known (RFC 6749 §4.1.2.1, §5.2).
func isUnknown(code string) bool { return code == "invalid_client" || code == "unauthorized_client" }

// sent names the store entry for a user who was sent to an authorization server, with the registration.
func (f *Flow) sent(who vault.Owner, server, issuer string) string {
	return "sent " + f.registration(server, issuer) + "\x00" + who.Issuer + "\x00" + who.User
}

// forgotten reports whether an authorization server has forgotten a registration, and then forgets it,
// too. To an unknown client the server sends no browser back (RFC 6749 §4.1.2.1), so the gateway hears
// nothing. But its users do not come back, and begin again: then the gateway sends a made-up code to the
// token endpoint. That checks the client first (RFC 6749 §5.2). Errors are those of the store.
func (f *Flow) forgotten(ctx context.Context, by web, s Server, p *place, known client, who vault.Owner) (bool, error) {
	with, err := f.Store.Get(ctx, f.sent(who, s.Name, p.issuer))
	if errors.Is(err, expiring.ErrNone) || err == nil && string(with) != known.ID {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	first, err := f.Store.Add(ctx, "asked "+f.registration(s.Name, p.issuer), nil, askEvery)
	if err != nil || !first {
		return false, err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: safehttp.RoundTripper(by.Do)})
	_, answer := f.oauth(begun{Server: s.Name, Client: known, TokenURL: p.tokenURL}, "").Exchange(ctx, rand.Text(),
		oauth2.VerifierOption(oauth2.GenerateVerifier()))
	refused, ok := errors.AsType[*oauth2.RetrieveError](answer)
	if !ok || !isUnknown(refused.ErrorCode) {
		return false, nil
	}
	return true, f.unknown(ctx, s.Name, p.issuer, known.ID)
}
