package issuer

import (
	"crypto/rand"
	"errors"
	"strings"
	"time"
)

// claims are the claims of an access token (RFC 9068 §2.2).
type claims struct {
	Issuer        string   `json:"iss"`
	Subject       string   `json:"sub"`
	Audience      string   `json:"aud"`
	ClientID      string   `json:"client_id"`
	Scope         string   `json:"scope,omitempty"`
	IssuedAt      int64    `json:"iat"`
	Expires       int64    `json:"exp"`
	ID            string   `json:"jti"`
	Name          string   `json:"name,omitempty"`
	Email         string   `json:"email,omitempty"`
	EmailVerified bool     `json:"email_verified,omitempty"`
	Groups        []string `json:"groups,omitempty"`
	Actor         *actor   `json:"act,omitempty"`
}

// actor is the party that acts for the subject (RFC 8693 §4.1).
type actor struct {
	Subject string `json:"sub"`
	Actor   *actor `json:"act,omitempty"`
}

func (s *Issuer) userClaims(u User, given grant) claims {
	return claims{
		Subject: u.Subject, Audience: given.resource, ClientID: given.client, Scope: strings.Join(given.scopes, " "),
		Name: u.Name, Email: u.Email, EmailVerified: u.Email != "", Groups: u.Groups,
	}
}

// sign adds the claims that all tokens have, and makes the token.
func (s *Issuer) sign(c claims, lifetime time.Duration) (string, error) {
	now := time.Now()
	c.Issuer = s.cfg.URL
	c.IssuedAt = now.Unix()
	c.Expires = now.Add(lifetime).Unix()
	c.ID = rand.Text()
	return s.keys.sign(c)
}

// verify returns the claims of a token for an audience that was signed with one of our
// keys.
func (s *Issuer) verify(token, audience string) (claims, error) {
	var c claims
	if err := s.keys.verify(token, &c); err != nil {
		return claims{}, err
	}
	if c.Audience != audience || time.Now().Unix() >= c.Expires {
		return claims{}, errors.New("expired, or for another audience")
	}
	return c, nil
}
