package session

import (
	"encoding/json"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// recordVersion is the version of keptRecord and of everything else in Redis beside a record. A
// session of another version counts as missing. Version 1 had no owner.
const recordVersion = 2

// keptRecord is a Record as it is sealed for Redis. Strings preserve the client's JSON as it is.
type keptRecord struct {
	Version int `json:"version"`
	Record
	ClientInfo string `json:"clientInfo,omitempty"`
	Caps       string `json:"caps,omitempty"`
}

func encode(r Record) []byte {
	r.Created = r.Created.UTC()
	value, _ := json.Marshal(keptRecord{recordVersion, r, string(r.ClientInfo), string(r.Caps)}) // cannot fail
	return value
}

// decode decodes the value that was kept for a session.
func decode(value []byte, k home.Key) (*Record, error) {
	var kept keptRecord
	if err := json.Unmarshal(value, &kept); err != nil {
		return nil, fmt.Errorf("session: reading a record: %w", err)
	}
	if kept.Version != recordVersion {
		return nil, fmt.Errorf("session: a record of version %d", kept.Version)
	}
	r := kept.Record
	r.User, r.ID, r.key = k.User, k.ID, k.String()
	r.ClientInfo, r.Caps = mcp.Raw(kept.ClientInfo), mcp.Raw(kept.Caps)
	return new(r.owned()), nil
}
