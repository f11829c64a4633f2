package auth

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// carried is the JSON form of a Caller for another replica.
type carried struct {
	Issuer   string    `json:"issuer,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	ClientID string    `json:"clientID,omitempty"`
	Groups   []string  `json:"groups,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	Claims   []byte    `json:"claims,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
	Token    string    `json:"token,omitempty"`
	View     string    `json:"view,omitempty"`
}

// WriteCaller encodes a caller for another replica of this gateway, which continues the
// caller's request. It contains the token, so the sender has to seal it.
func WriteCaller(c mcp.Caller) ([]byte, error) {
	text, err := json.Marshal(carried{c.Issuer, c.Subject, c.ClientID, c.Groups, c.Scopes, c.Claims, c.Expires, string(c.Token), c.View})
	if err != nil {
		return nil, fmt.Errorf("auth: writing a caller: %w", err)
	}
	return text, nil
}

// ReadCaller decodes the output of WriteCaller.
func ReadCaller(text []byte) (mcp.Caller, error) {
	var c carried
	if err := json.Unmarshal(text, &c); err != nil {
		return mcp.Caller{}, fmt.Errorf("auth: reading a caller: %w", err)
	}
	return mcp.NewCaller(mcp.Caller{Issuer: c.Issuer, Subject: c.Subject, ClientID: c.ClientID, Groups: c.Groups, Scopes: c.Scopes,
		Claims: c.Claims, Expires: c.Expires, Token: mcp.Secret(c.Token), View: c.View}), nil
}
