package session

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// MaxRecordBytes bounds what one record keeps of its client's data, in bytes: client info,
// capabilities and subscriptions together.
const MaxRecordBytes = 256 << 10

// Record describes one session. A Record is a value: only Store.Update changes what is stored. Its
// slices are shared with the store and other readers; they are replaced, never modified. Its tags
// are for keptRecord.
type Record struct {
	// User is mcp.Caller.User of the session's user.
	User string `json:"-"`
	// Subject is mcp.Caller.Subject: what the user is called. It is for operators only.
	Subject string `json:"subject,omitempty"`
	// Client is mcp.Caller.ClientID of the session's client; "" if clients are not known.
	Client string `json:"client,omitempty"`
	// View is mcp.Caller.View of the endpoint where the session began: it exists only there.
	View string `json:"view,omitempty"`
	// ID is the value of Mcp-Session-Id: 26 characters of base32, 130 random bits.
	ID string `json:"-"`
	// Revision is the name of the negotiated protocol revision.
	Revision string `json:"revision"`
	// ClientInfo and Caps are the clientInfo and capabilities of initialize.
	ClientInfo mcp.Raw `json:"-"`
	Caps       mcp.Raw `json:"-"`
	// Initialized says that notifications/initialized was received.
	Initialized bool `json:"initialized,omitempty"`
	// LogLevel is the last level of logging/setLevel; "" if it was never called.
	LogLevel string `json:"logLevel,omitempty"`
	// Subscriptions are the public URIs that resources/subscribe was called with.
	Subscriptions []string `json:"subscriptions,omitempty"`
	// Created is when the session began.
	Created time.Time `json:"created"`

	key string // caches Key
}

// Key is "user:id", the name under which the rest of the gateway keeps what belongs to the
// session. The key is not a secret itself but contains one: do not log it.
func (r Record) Key() string {
	if r.key != "" {
		return r.key
	}
	return home.Key{User: r.User, ID: r.ID}.String()
}

// size returns the bytes that MaxRecordBytes bounds.
func (r Record) size() int {
	n := len(r.Subject) + len(r.Client) + len(r.ClientInfo) + len(r.Caps) + len(r.LogLevel)
	for _, uri := range r.Subscriptions {
		n += len(uri)
	}
	return n
}

// minted returns the record of a session that begins now, with a new id.
func (r Record) minted() Record {
	r = r.owned()
	r.ID, r.Created = rand.Text(), time.Now()
	r.key = home.Key{User: r.User, ID: r.ID}.String()
	return r
}

// owned returns the record with copies of its slices, each with no spare capacity. It keeps no
// request body alive, and an append by a reader copies.
func (r Record) owned() Record {
	r.ClientInfo = slices.Clip(append(mcp.Raw(nil), r.ClientInfo...))
	r.Caps = slices.Clip(append(mcp.Raw(nil), r.Caps...))
	r.Subscriptions = slices.Clip(slices.Clone(r.Subscriptions))
	return r
}
