package session

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// recordVersion is the version of keptRecord and of everything else in Redis beside a record.
// A replica of another version treats a session with an unknown version as missing. Version 1
// had no owner.
const recordVersion = 2

// keptRecord is a Record in the form that is sealed for Redis. The client's JSON is kept in
// strings, which preserves it byte for byte.
type keptRecord struct {
	Version       int      `json:"version"`
	Subject       string   `json:"subject,omitempty"`
	Client        string   `json:"client,omitempty"`
	View          string   `json:"view,omitempty"`
	Revision      string   `json:"revision"`
	ClientInfo    string   `json:"clientInfo,omitempty"`
	Caps          string   `json:"caps,omitempty"`
	Initialized   bool     `json:"initialized,omitempty"`
	LogLevel      string   `json:"logLevel,omitempty"`
	Subscriptions []string `json:"subscriptions,omitempty"`
	Created       string   `json:"created"`
}

func encode(r Record) ([]byte, error) {
	value, err := json.Marshal(keptRecord{
		Version:       recordVersion,
		Subject:       r.Subject,
		Client:        r.Client,
		View:          r.View,
		Revision:      r.Revision,
		ClientInfo:    string(r.ClientInfo),
		Caps:          string(r.Caps),
		Initialized:   r.Initialized,
		LogLevel:      r.LogLevel,
		Subscriptions: r.Subscriptions,
		Created:       r.Created.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return nil, fmt.Errorf("session: writing a record: %w", err)
	}
	return value, nil
}

// decode decodes the value that was kept for a session.
func decode(value []byte, n name) (*Record, error) {
	var k keptRecord
	if err := json.Unmarshal(value, &k); err != nil {
		return nil, fmt.Errorf("session: reading a record: %w", err)
	}
	if k.Version != recordVersion {
		return nil, fmt.Errorf("session: a record of version %d", k.Version)
	}
	created, err := time.Parse(time.RFC3339Nano, k.Created)
	if err != nil {
		return nil, fmt.Errorf("session: reading a record: %w", err)
	}
	r := Record{
		User:          n.user,
		Subject:       k.Subject,
		Client:        k.Client,
		View:          k.View,
		ID:            n.id,
		Revision:      k.Revision,
		ClientInfo:    raw(k.ClientInfo),
		Caps:          raw(k.Caps),
		Initialized:   k.Initialized,
		LogLevel:      k.LogLevel,
		Subscriptions: k.Subscriptions,
		Created:       created,
		key:           n.key(),
	}.owned()
	return &r, nil
}

func raw(text string) mcp.Raw {
	if text == "" {
		return nil
	}
	return mcp.Raw(text)
}
