package wire

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// rev20241105 is the first revision. It lacks tool annotations, audio, messages with
// progress, and the completions capability.
var rev20241105 = Revision{
	Name:     "2024-11-05",
	Stateful: true,
	Batches:  true, // JSON-RPC has batches, and this revision does not exclude them
	next:     &rev20250326,
	clients: []capability{
		{name: "experimental", any: true},
		{name: "roots", members: []string{"listChanged"}},
		{name: "sampling"},
	},
	servers: []capability{
		{name: "experimental", any: true},
		{name: "logging", any: true},
		{name: "prompts", any: true},
		{name: "resources", any: true},
		{name: "tools", any: true},
		{name: "skills", any: true}, // SEP-2076
	},
	item:   item20241105,
	result: result20241105,
	event:  event20241105,
	ask:    ask20241105,
	answer: answer20241105,
}

func item20241105(listMethod string, item mcp.Raw) mcp.Raw {
	if listMethod != mcp.MethodToolsList {
		return item
	}
	return without(item, "annotations")
}

func result20241105(method string, result mcp.Edited) mcp.Edited {
	return inBlocks(method, result, func(block mcp.Raw) mcp.Raw {
		if blockType(block) != "audio" {
			return block
		}
		kind, _ := block.Member("mimeType")
		return textBlock("Audio ("+kind.Text()+") was left out: this protocol revision has no audio.", block)
	})
}

func event20241105(method string, params mcp.Raw) mcp.Raw {
	if method != mcp.NoteProgress {
		return params
	}
	return without(params, "message")
}

func ask20241105(method string, params mcp.Raw) (mcp.Raw, error) {
	if method != mcp.MethodCreateMessage {
		return params, nil
	}
	return inMessages(params, silent)
}

func answer20241105(method string, answer mcp.Raw) (mcp.Raw, error) {
	if method != mcp.MethodCreateMessage {
		return answer, nil
	}
	return silent(answer)
}

// silent refuses a message that is audio: a client would answer a note in its place.
func silent(message mcp.Raw) (mcp.Raw, error) {
	if content, _ := message.Member("content"); blockType(content) == "audio" {
		return nil, errors.New("sampling knows no audio in this revision")
	}
	return message, nil
}
