package hooks

import (
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// This file tells which parts of a message are content, and which are data. The rest is left alone:
// with other texts in what the protocol reads, it would be another message.

// inData edits a value that means something to its application only.
func inData(value mcp.Raw, do edit) mcp.Raw { return do(value, true) }

// inTexts edits a value of MCP.
func inTexts(value mcp.Raw, do edit) mcp.Raw { return do(value, false) }

// inResult edits a result of any method, and the contents of other messages of MCP.
func inResult(result mcp.Raw, do edit) mcp.Raw {
	return inMembers(result, do, func(name []byte, value mcp.Raw) mcp.Raw {
		switch {
		case mcp.Named(name, "structuredContent"):
			return do(value, true)
		case mcp.Named(name, "_meta"):
			return inMeta(value, do)
		}
		return do(value, false)
	})
}

// inMembers edits an object by its members. A value of another type than the protocol has there is
// all data.
func inMembers(value mcp.Raw, do edit, fn func(name []byte, value mcp.Raw) mcp.Raw) mcp.Raw {
	if !value.IsObject() {
		return do(value, true)
	}
	return value.Map(fn)
}

// inMeta leaves the members that the protocol reads alone. Any other name under its prefix is a server's own.
func inMeta(meta mcp.Raw, do edit) mcp.Raw {
	return inMembers(meta, do, func(name []byte, value mcp.Raw) mcp.Raw {
		switch string(name) {
		case wire.MetaProgressToken, wire.MetaRelatedTask, wire.MetaSubscriptionID, wire.MetaServerInfo:
			return value
		}
		return do(value, true)
	})
}

// inError edits a JSON-RPC error.
func inError(value mcp.Raw, do edit) mcp.Raw {
	return inMembers(value, do, func(name []byte, value mcp.Raw) mcp.Raw {
		return do(value, string(name) == "data")
	})
}

// inQuestion edits the params of a question. The page to which it sends the user, who sees it, is
// left alone: a changed URL leads elsewhere.
func inQuestion(params mcp.Raw, do edit) mcp.Raw {
	return inMembers(params, do, func(name []byte, value mcp.Raw) mcp.Raw {
		switch {
		case mcp.Named(name, "url"), mcp.Named(name, "elicitationId"):
			return value
		case mcp.Named(name, "_meta"):
			return inMeta(value, do)
		}
		return do(value, false)
	})
}

// inMessage edits the params of progress and log messages.
func inMessage(params mcp.Raw, do edit) mcp.Raw {
	return inMembers(params, do, func(name []byte, value mcp.Raw) mcp.Raw {
		switch {
		case mcp.Named(name, "data"):
			return do(value, true)
		case mcp.Named(name, mcp.MetaProgressToken):
			return value
		case mcp.Named(name, "_meta"):
			return inMeta(value, do)
		}
		return do(value, false)
	})
}
