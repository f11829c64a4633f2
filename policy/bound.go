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

// An approval covers everything that the server gets. question shows, and digestOf binds, the
// same members: those of eachSent.

// inMeta marks a member of _meta.
const inMeta = "_meta"

// eachSent calls fn for everything in a call's params, besides the name, that its server gets
// as the client wrote it: members of params and, with inMeta as the first argument, members
// of _meta.
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
// replaces it, or it is a trace context (W3C Trace Context, W3C Baggage), which differs in
// each round.
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

// digestOf returns a digest of a call: its user, client, view, target and everything that is sent.
// The client's declared capabilities count too, since servers act on them. White space
// between values and the order of members do not count, except inside a value.
func digestOf(c *mcp.Call, target mcp.Target) string {
	members := []string{"caps:" + compact(c.Caps)}
	eachSent(c, func(in, name string, value mcp.Raw) {
		members = append(members, in+"\x00"+name+"\x00"+compact(value))
	})
	slices.Sort(members)
	h := sha256.New()
	parts := []string{c.Caller.Issuer, c.Caller.Subject, c.Caller.ClientID, c.Caller.View, c.Method, target.Kind,
		target.Upstream, target.Name, target.File}
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
