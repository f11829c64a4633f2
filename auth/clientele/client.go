package clientele

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
	"time"
)

// How a client was accepted.
const (
	// KindFixed is a client that the configuration names, with or without a copy of its document.
	KindFixed = "fixed"
	// KindDocument is a client with the URL of a document about it as its id.
	KindDocument = "cimd"
	// KindRegistered is a client that has registered itself.
	KindRegistered = "dcr"
)

// How a client proves its identity at the token endpoint, in the words of its metadata (RFC 7591 §2).
const (
	MethodNone  = "none"
	MethodBasic = "client_secret_basic"
	MethodPost  = "client_secret_post"
)

// Client is a client of the authorization server.
type Client struct {
	ID   string
	Kind string // KindFixed, KindDocument or KindRegistered
	// Name is what the client calls itself, for people: short, and without invisible characters.
	// Only that of a KindFixed has been checked. It is never empty.
	Name string
	// URI is a page about the client, https; "" for none. It is not checked, either.
	URI string
	// Redirects are its redirect URIs, at least one. All of them are well-formed.
	Redirects []string
	// Method is how it proves who it is: MethodNone for a public client.
	Method string
	// Expires is when a registration ends; zero for never.
	Expires time.Time

	secret [sha256.Size]byte // the digest of its secret, if it has one
}

// Allows reports whether a redirect URI is one of the client's: byte for byte, but with any port on
// a loopback address (RFC 8252 §7.3).
func (c Client) Allows(uri string) bool {
	asked, err := parseRedirect(uri)
	if err != nil {
		return false
	}
	for _, one := range c.Redirects {
		if registered, err := parseRedirect(one); err == nil && registered.same(asked) {
			return true
		}
	}
	return false
}

// Public reports whether the client has nothing to prove its identity with.
func (c Client) Public() bool { return c.Method == MethodNone }

// Knows reports whether a secret is the client's. It is false for a client without a secret.
func (c Client) Knows(secret string) bool {
	given := sha256.Sum256([]byte(secret))
	has := c.Method == MethodBasic || c.Method == MethodPost
	return subtle.ConstantTimeCompare(given[:], c.secret[:]) == 1 && has
}

// ShortID is an id as tokens and records have it: that of a client that has registered itself, which holds
// the whole registration, by its digest.
func ShortID(id string) string {
	if !strings.HasPrefix(id, registeredPrefix) {
		return id
	}
	digest := sha256.Sum256([]byte(id))
	return registeredPrefix + hex.EncodeToString(digest[:12])
}

// Place names the target of a redirect URI, for people who decide about it: the host, or the scheme
// of a program. local says that it is a program on the user's machine, and that there is no telling
// which one.
func Place(uri string) (name string, local bool) {
	r, err := parseRedirect(uri)
	switch {
	case err != nil:
		return "", false
	case r.scheme == "https":
		if r.port != "" {
			return r.host + ":" + r.port, false
		}
		return r.host, false
	case r.loopback():
		return r.host, true
	}
	return r.scheme + ":", true
}
