package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// The gateway is another client for each server, with a callback of its own: else a server could have
// the code of another one's authorization server brought to its own (mix-up, RFC 9700 §4.4.2.2).
// These are its paths below the public URL.
const (
	clientsPath  = "/oauth/accounts/"
	documentName = "/client.json"
	callbackName = "/callback"
)

// DocumentPath is the path of the gateway's client ID metadata document for a server.
func DocumentPath(server string) string { return clientsPath + server + documentName }

// CallbackPath is the path to which the authorization server of a server sends browsers back.
func CallbackPath(server string) string { return clientsPath + server + callbackName }

const (
	clientName = "Gatehouse"
	// registeredFor is how long a registration is used at most.
	registeredFor = 90 * 24 * time.Hour
	// maxID bounds the id and the secret of a registration, in bytes.
	maxID = 4 << 10
)

// client is the gateway's identity at an authorization server.
type client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"` // "" for a public client
	Auth   string `json:"auth"`
	// Registered says that it comes from dynamic registration.
	Registered bool `json:"registered,omitempty"`
}

// clientAt returns the gateway's identity at an authorization server: what the operator registered,
// else its own document, else what it registers itself as (2026-07-28
// basic/authorization/client-registration). Errors are a *Problem.
func (f *Flow) clientAt(ctx context.Context, by web, s Server, p *place, who vault.Owner) (client, error) {
	switch {
	case s.ClientID != "" && s.ClientSecret == "":
		return client{ID: s.ClientID, Auth: vault.AuthNone}, nil
	case s.ClientID != "" && s.ClientAuth != "":
		return client{ID: s.ClientID, Secret: string(s.ClientSecret), Auth: s.ClientAuth}, nil
	case s.ClientID != "":
		return client{ID: s.ClientID, Secret: string(s.ClientSecret), Auth: vault.AuthBasic}, nil
	case p.documents && f.documentable():
		return client{ID: f.PublicURL + DocumentPath(s.Name), Auth: vault.AuthNone}, nil
	case p.registerURL == "":
		return client{},
			problem(errors.New("it knows neither client ID metadata documents that are at https nor registration: "+
				"register Gatehouse there, and configure its client id"),
				"Gatehouse has to be registered at the authorization server of this server first")
	}
	at := f.registration(s.Name, p.issuer)
	var known client
	value, err := f.Store.Get(ctx, at)
	if err == nil && json.Unmarshal(value, &known) == nil {
		var forgotten bool
		if forgotten, err = f.forgotten(ctx, by, s, p, known, who); err == nil && !forgotten {
			return known, nil
		}
	}
	if err != nil && !errors.Is(err, expiring.ErrNone) {
		return client{}, problem(err, "The store of accounts does not answer")
	}
	return f.register(ctx, by, s, p, at)
}

// registration names the store entry for the gateway's registration for a server at an issuer.
// Another redirect URI needs another registration.
func (f *Flow) registration(server, issuer string) string {
	return "client " + f.redirect(server) + " " + issuer
}

// documentable reports whether authorization servers can have the gateway's document.
func (f *Flow) documentable() bool { return strings.HasPrefix(f.PublicURL, "https://") }

// Document is the gateway's client ID metadata document for a server
// (draft-ietf-oauth-client-id-metadata-document-00). It holds nothing secret.
func (f *Flow) Document(server string) []byte {
	doc := f.metadata(server, vault.AuthNone)
	doc["client_id"] = f.PublicURL + DocumentPath(server)
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err) // only strings and lists of them
	}
	return text
}

// metadata describe the gateway as the client for a server (RFC 7591 §2).
func (f *Flow) metadata(server, auth string) map[string]any {
	kind := "web"
	if !f.documentable() {
		kind = "native"
	}
	return map[string]any{
		"client_name": clientName + " (" + server + ")", "client_uri": f.PublicURL,
		"redirect_uris": []string{f.redirect(server)}, "application_type": kind,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": auth,
	}
}

// register registers the gateway (RFC 7591), and keeps that for all replicas. If another one was
// faster, what that one has counts.
func (f *Flow) register(ctx context.Context, by web, s Server, p *place, at string) (client, error) {
	auth := vault.AuthBasic // the default of RFC 8414
	for _, method := range []string{vault.AuthPost, vault.AuthBasic, vault.AuthNone} {
		if slices.Contains(p.methods, method) {
			auth = method
		}
	}
	doc, err := registerAs(ctx, by, p.registerURL, f.metadata(s.Name, auth))
	if err != nil && len(p.methods) == 0 { // some that do not say so have public clients alone
		auth = vault.AuthNone
		doc, err = registerAs(ctx, by, p.registerURL, f.metadata(s.Name, auth))
	}
	const failed = "The authorization server of this server does not register Gatehouse"
	if err != nil {
		return client{}, problem(err, failed)
	}
	is := client{ID: doc.At("client_id").Text(), Secret: doc.At("client_secret").Text(),
		Auth: doc.At("token_endpoint_auth_method").Text(), Registered: true}
	if is.Auth == "" {
		is.Auth = auth
	}
	if is.Secret == "" {
		is.Auth = vault.AuthNone
	}
	if is.ID == "" || len(is.ID)+len(is.Secret) > maxID ||
		is.Auth != vault.AuthNone && is.Auth != vault.AuthBasic && is.Auth != vault.AuthPost {
		return client{}, problem(errors.New("its answer has no client_id that can be used"), failed)
	}
	life := registeredFor
	if end := expiry(doc); !end.IsZero() {
		life = min(life, time.Until(end))
	}
	value, err := json.Marshal(is)
	if err != nil || life <= 0 {
		return is, nil // it is good for this sign-in
	}
	first, err := f.Store.Add(ctx, at, value, life)
	if err == nil && !first {
		if value, err = f.Store.Get(ctx, at); err == nil {
			err = json.Unmarshal(value, &is)
		}
	}
	if err != nil {
		return client{}, problem(err, "The store of accounts does not answer")
	}
	return is, nil
}

// registerAs registers a client with this metadata.
func registerAs(ctx context.Context, by web, at string, metadata map[string]any) (mcp.Raw, error) {
	text, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("registration_endpoint is not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	answer, err := by.Do(req)
	if err != nil {
		return nil, err
	}
	doc, err := object(answer.Body)
	if answer.Status != http.StatusCreated && answer.Status != http.StatusOK || err != nil {
		return nil, fmt.Errorf("HTTP %d %s", answer.Status, codeOf(doc.At("error").Text()))
	}
	return doc, nil
}

// expiry is when the secret of a registration ends, zero for never (RFC 7591 §3.2.1).
func expiry(doc mcp.Raw) time.Time {
	seconds, err := strconv.ParseInt(string(doc.At("client_secret_expires_at")), 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// codeOf returns an error code of OAuth that can be shown, "" if there is none.
func codeOf(text string) string {
	if len(text) > 64 || !isScope(text) {
		return ""
	}
	return text
}
