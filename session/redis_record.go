package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// recordVersion is that of the form below. A replica of another version takes a value
// that it does not know for none.
const recordVersion = 1

// errForeign: a value that belongs to another key.
var errForeign = errors.New("the value is another session's")

// keptRecord is a Record as it stands in Redis. It names its own key, so that a value that
// got under another one is noticed. What the client wrote in JSON is kept in strings, which
// leaves it as it was written.
type keptRecord struct {
	Version       int      `json:"version"`
	Key           string   `json:"key"`
	Client        string   `json:"client,omitempty"`
	Revision      string   `json:"revision"`
	ClientInfo    string   `json:"clientInfo,omitempty"`
	Caps          string   `json:"caps,omitempty"`
	Initialized   bool     `json:"initialized,omitempty"`
	LogLevel      string   `json:"logLevel,omitempty"`
	Subscriptions []string `json:"subscriptions,omitempty"`
	Standing      string   `json:"standing,omitempty"`
	Listening     string   `json:"listening,omitempty"`
	Created       string   `json:"created"`
}

func encode(r Record) (string, error) {
	value, err := json.Marshal(keptRecord{
		Version:       recordVersion,
		Key:           r.Key(),
		Client:        r.Client,
		Revision:      r.Revision,
		ClientInfo:    string(r.ClientInfo),
		Caps:          string(r.Caps),
		Initialized:   r.Initialized,
		LogLevel:      r.LogLevel,
		Subscriptions: r.Subscriptions,
		Standing:      r.Standing,
		Listening:     r.Listening,
		Created:       r.Created.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return "", fmt.Errorf("session: writing a record: %w", err)
	}
	return string(value), nil
}

// decode reads a value that was kept for a session.
func decode(value string, n name) (*Record, error) {
	var k keptRecord
	if err := json.Unmarshal([]byte(value), &k); err != nil {
		return nil, fmt.Errorf("session: reading a record: %w", err)
	}
	if k.Version != recordVersion {
		return nil, fmt.Errorf("session: a record of version %d", k.Version)
	}
	if k.Key != n.user+":"+n.id {
		return nil, errForeign
	}
	created, err := time.Parse(time.RFC3339Nano, k.Created)
	if err != nil {
		return nil, fmt.Errorf("session: reading a record: %w", err)
	}
	r := Record{
		User:          n.user,
		Client:        k.Client,
		ID:            n.id,
		Revision:      k.Revision,
		ClientInfo:    raw(k.ClientInfo),
		Caps:          raw(k.Caps),
		Initialized:   k.Initialized,
		LogLevel:      k.LogLevel,
		Subscriptions: k.Subscriptions,
		Standing:      k.Standing,
		Listening:     k.Listening,
		Created:       created,
		key:           k.Key,
	}.owned()
	return &r, nil
}

func raw(text string) mcp.Raw {
	if text == "" {
		return nil
	}
	return mcp.Raw(text)
}
