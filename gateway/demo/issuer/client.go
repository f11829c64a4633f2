package issuer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

const (
	// registeredPrefix begins the ids of clients that registered themselves.
	registeredPrefix = "dev."
	maxClientID      = 4 << 10
	maxClientName    = 80
	maxRedirects     = 20
)

// client is a program of a user. It has no secret; it is identified by its redirect URIs.
type client struct {
	id        string
	name      string // as the client gives it
	redirects []string
	refreshes bool // may have refresh tokens
}

// clientMetadata is what a client says about itself, at registration (RFC 7591 §2) or in a
// document. Other members are ignored.
type clientMetadata struct {
	ClientID      string   `json:"client_id"`
	Name          string   `json:"client_name"`
	Redirects     []string `json:"redirect_uris"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
}

// client checks what a client says about itself. It does not set the id.
func (m clientMetadata) client() (client, error) {
	if len(m.Redirects) == 0 || len(m.Redirects) > maxRedirects {
		return client{}, fmt.Errorf("redirect_uris: want 1 to %d", maxRedirects)
	}
	for _, uri := range m.Redirects {
		if err := checkRedirect(uri); err != nil {
			return client{}, fmt.Errorf("redirect_uris: %w", err)
		}
	}
	if m.GrantTypes != nil && !slices.Contains(m.GrantTypes, grantCode) {
		return client{}, errors.New("grant_types: want authorization_code")
	}
	if m.ResponseTypes != nil && !slices.Contains(m.ResponseTypes, "code") {
		return client{}, errors.New("response_types: want code")
	}
	return client{
		name:      displayName(m.Name),
		redirects: m.Redirects,
		refreshes: slices.Contains(m.GrantTypes, grantRefresh),
	}, nil
}

// displayName removes characters that could change how the text around a name looks.
func displayName(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			return -1 // controls, and marks that turn the direction of text
		}
		return r
	}, name)
	name = strings.TrimSpace(name)
	if runes := []rune(name); len(runes) > maxClientName {
		name = string(runes[:maxClientName]) + "..."
	}
	if name == "" {
		return "An unnamed client"
	}
	return name
}

// registration is a client encoded in its own id. Anyone may register, so a list would have
// no use: this way there is nothing to bound or to forget, and an id from an earlier run of
// the demo stays valid.
type registration struct {
	Name      string   `json:"n"`
	Redirects []string `json:"r"`
	Refreshes bool     `json:"f,omitempty"`
}

// registeredID returns the id of a client; ok is false if it would be too long.
func registeredID(c client) (id string, ok bool) {
	body, err := json.Marshal(registration{Name: c.name, Redirects: c.redirects, Refreshes: c.refreshes})
	if err != nil {
		return "", false
	}
	id = registeredPrefix + base64.RawURLEncoding.EncodeToString(body)
	return id, len(id) <= maxClientID
}

var errClient = errors.New("there is no such client")

// registered decodes the client from its id, and checks it as at registration, because the
// id may be forged.
func registered(id string) (client, error) {
	encoded, ok := strings.CutPrefix(id, registeredPrefix)
	if !ok || len(id) > maxClientID {
		return client{}, errClient
	}
	body, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return client{}, errClient
	}
	var r registration
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(&r) != nil {
		return client{}, errClient
	}
	c, err := clientMetadata{Name: r.Name, Redirects: r.Redirects}.client()
	if err != nil {
		return client{}, errClient
	}
	c.refreshes = r.Refreshes
	if again, _ := registeredID(c); again != id { // one client has only one id
		return client{}, errClient
	}
	c.id = id
	return c, nil
}

// find returns the client with an id of either kind. The user may read its errors.
func (s *Issuer) find(ctx context.Context, id string) (client, error) {
	if strings.HasPrefix(id, registeredPrefix) {
		return registered(id)
	}
	if strings.HasPrefix(id, "https://") {
		return s.documents.client(ctx, id)
	}
	return client{}, errClient
}
