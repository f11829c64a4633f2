package shape

import (
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// place is the place of a value in a message.
type place uint8

const (
	envelope place = iota
	params         // the params of a request
	ref            // what a completion is for
	failed         // an error
	plain          // a number or a boolean of the protocol
	inside         // an object of the protocol
	used           // the name or URI of what is used
	names          // an object with names that a tool's author chose, and values that others chose
	free           // a value that a person, client or server chose
)

// member returns the place of a member.
func (at place) member(key string) place {
	switch {
	case at == free, at == names, at == used, at == plain:
		return free
	case at == envelope && key == "error":
		return failed
	case at == envelope && key == "params":
		return params
	case at == params && key == "ref":
		return ref
	case (at == params || at == ref) && (key == "name" || key == "uri"):
		return used
	case key == "arguments":
		return names
	}
	switch key {
	case "id":
		if at == envelope {
			return plain
		}
	case "code":
		if at == failed {
			return plain
		}
	case "requestId":
		if at == params {
			return plain
		}
	case "ttlMs", "progressToken", "isError", "listChanged", "subscribe":
		return plain
	case "structuredContent", "inputSchema", "outputSchema", "requestedSchema", "data", "metadata", "annotations":
		return free
	}
	return inside
}

// shown reports whether a string is a word of the protocol, or a known name or URI.
func (w *writer) shown(at place, key, s string) bool {
	switch at {
	case free, names:
		return false
	case used:
		return slices.Contains(w.known, s)
	}
	return word(key, s)
}

// word reports whether a string is one of the protocol's own under a key.
func word(key, s string) bool {
	switch key[strings.LastIndexByte(key, '/')+1:] {
	case "jsonrpc":
		return s == "2.0"
	case "method":
		return knownMethod(s)
	case "protocolVersion", "supportedVersions", "supported":
		return wire.Lookup(s) != nil
	case "level", "logLevel":
		return wire.ValidLogLevel(s)
	case "resultType":
		return s == "complete" || s == "input_required" || s == "task"
	case "cacheScope":
		return s == "public" || s == "private"
	case "role":
		return s == "user" || s == "assistant"
	case "action":
		return s == "accept" || s == "decline" || s == "cancel"
	case "mode":
		return s == "form" || s == "url"
	case "type":
		switch s {
		case "text", "image", "audio", "resource", "resource_link", "ref/prompt", "ref/resource", "tool_use", "tool_result":
			return true
		}
	case "status":
		switch s {
		case "working", "input_required", "completed", "failed", "cancelled":
			return true
		}
	}
	return false
}

func knownMethod(s string) bool {
	switch s {
	case mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodRootsList,
		mcp.NoteProgress, mcp.NoteMessage, mcp.NoteCancelled, mcp.NoteElicitationComplete, mcp.NoteAcknowledged, mcp.NoteTask:
		return true
	}
	return mcp.KnownMethod(s)
}
