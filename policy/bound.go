package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// An approval is for all that the server gets: what is shown (question) and what is bound
// (digestOf) are both what eachSent says.

// inMeta marks what is a member of _meta.
const inMeta = "_meta"

// eachSent calls fn for what of a call's params goes to its server as the client wrote it,
// besides the name: members of params and, with in set, those of _meta.
func eachSent(c *mcp.Call, fn func(in, name string, value mcp.Raw)) {
	key := mcp.NameMember(c.Method)
	c.Params.Each(func(name string, value mcp.Raw) bool {
		switch {
		case name == key, name == "inputResponses", name == "requestState":
		case name == inMeta:
			value.Each(func(name string, value mcp.Raw) bool {
				if !ofTheHop(name, value) {
					fn(inMeta, name, value)
				}
				return true
			})
		default:
			fn("", name, value)
		}
		return true
	})
}

// ofTheHop reports whether a member of _meta says nothing about what runs: the gateway
// puts in its own, or it is a trace context (W3C Trace Context, W3C Baggage), which another
// one has in each round.
func ofTheHop(name string, value mcp.Raw) bool {
	switch name {
	case mcp.MetaProgressToken:
		return true
	case "traceparent", "tracestate", "baggage":
		_, isString := value.StringValue()
		return isString
	}
	return strings.HasPrefix(name, mcp.MetaPrefix)
}

// digestOf is a digest of a call: who makes it through which client, of what, with what is
// sent. What the client declared counts, too, since servers act by that. White space
// between values and the order of members do not count, but for those within a value.
func digestOf(c *mcp.Call, target mcp.Target) string {
	members := []string{"caps:" + compact(c.Caps)}
	eachSent(c, func(in, name string, value mcp.Raw) {
		members = append(members, in+"\x00"+name+"\x00"+compact(value))
	})
	slices.Sort(members)
	h := sha256.New()
	parts := []string{c.Caller.Issuer, c.Caller.Subject, c.Caller.ClientID, c.Method, target.Kind, target.Upstream, target.Name, target.File}
	for _, part := range append(parts, members...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func compact(value mcp.Raw) string {
	var out bytes.Buffer
	if err := json.Compact(&out, value); err != nil {
		return string(value) // no JSON, which the front does not let in
	}
	return out.String()
}
