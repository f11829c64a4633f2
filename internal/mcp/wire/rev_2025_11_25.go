package wire

import (
	"encoding/json"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// rev20251125 is the newest revision with sessions. It differs from the inner language:
// results have no discriminator and no cache hints, structured content is an object, and
// tasks are not an extension (task.go).
var rev20251125 = Revision{
	Name:           "2025-11-25",
	Stateful:       true,
	VersionHeader:  true,
	Priming:        true,
	ElicitationIDs: true,
	CoreTasks:      true,
	clients: []capability{
		{name: "experimental", any: true},
		{name: "roots", members: []string{"listChanged"}},
		{name: "sampling", members: []string{"context", "tools"}},
		{name: "elicitation", members: []string{"form", "url"}},
		{name: "tasks", any: true},
		{name: "extensions", any: true, without: []string{tasksExtension}},
	},
	servers: []capability{
		{name: "experimental", any: true},
		{name: "logging", any: true},
		{name: "completions", any: true},
		{name: "prompts", any: true},
		{name: "resources", any: true},
		{name: "tools", any: true},
		{name: "skills", any: true}, // SEP-2076
		{name: "tasks", any: true},
		{name: "extensions", any: true, without: []string{tasksExtension}},
	},
	item:   item20251125,
	result: result20251125,
	event:  event20251125,
	error:  error20251125,
}

func item20251125(listMethod string, item mcp.Raw) mcp.Raw {
	if listMethod != mcp.MethodToolsList {
		return item
	}
	if schema, ok := item.Member("outputSchema"); ok {
		if kind, _ := schema.Member("type"); kind.Text() != "object" {
			item = without(item, "outputSchema")
		}
	}
	return item
}

func result20251125(method string, result mcp.Edited) mcp.Edited {
	switch method {
	case mcp.MethodTasksGet, mcp.MethodTasksCancel:
		return mcp.Edited{Of: coreTask(result.Of)}
	case mcp.MethodTasksResult:
		method = mcp.MethodToolsCall // the result of a task is that of the call
	}
	var structured, meta mcp.Raw
	newer, task := false, false
	result.Outline.Members(result.Of, func(name []byte, value mcp.Raw) bool {
		switch string(name) {
		case "resultType":
			newer, task = true, string(value) == `"task"`
		case "ttlMs", "cacheScope":
			newer = true
		case "structuredContent":
			structured = value
		case "_meta":
			meta = value
		}
		return true
	})
	if task && method == mcp.MethodToolsCall {
		return mcp.Edited{Of: coreCreatedTask(result.Of)}
	}
	if newer {
		result = result.With(mcp.Edit{Name: "resultType"}, mcp.Edit{Name: "ttlMs"}, mcp.Edit{Name: "cacheScope"})
	}
	if structured != nil && !structured.IsObject() && method == mcp.MethodToolsCall {
		result = withoutStructured(result, structured)
	}
	if less := without(meta, MetaServerInfo, MetaSubscriptionID); !same(less, meta) {
		result = result.With(mcp.Edit{Name: "_meta", Value: less})
	}
	return result
}

func event20251125(method string, params mcp.Raw) mcp.Raw {
	if method == mcp.NoteTask {
		return coreTask(params)
	}
	return params
}

// withoutStructured removes the structured content and makes sure that a text block has the same
// content. A text block with a JSON document of the same kind counts as the copy that servers
// should send, and so does a link to the whole of a shortened result.
func withoutStructured(result mcp.Edited, structured mcp.Raw) mcp.Edited {
	result = result.With(mcp.Edit{Name: "structuredContent"})
	content, _ := result.Member("content")
	copied := false
	content.Elements(func(block mcp.Raw) bool {
		text, _ := block.Member("text")
		said := text.Text()
		copied = said != "" && said[0] == structured[0] && json.Valid([]byte(said)) || linksWhole(block)
		return !copied
	})
	if copied {
		return result
	}
	block := mcp.Object("type", mcp.String("text"), "text", mcp.String(string(structured)))
	blocks := mcp.Raw{'['}
	content.Elements(func(b mcp.Raw) bool {
		blocks = appendElement(blocks, b)
		return true
	})
	return result.With(mcp.Edit{Name: "content", Value: append(appendElement(blocks, block), ']')})
}

// linksWhole reports whether a block is the gateway's link to a whole result.
func linksWhole(block mcp.Raw) bool {
	uri, _ := block.Member("uri")
	return blockType(block) == "resource_link" && strings.HasPrefix(uri.Text(), mcp.ResultScheme)
}

// error20251125 gives a missing resource the code of this revision, and hides disagreements
// between the gateway and a stateless upstream.
func error20251125(method string, e *mcp.Error) *mcp.Error {
	switch e.Code {
	case mcp.CodeInvalidParams:
		if _, ok := e.Data.Member("uri"); ok && mcp.NameMember(method) == "uri" && method != mcp.MethodDirectoryRead {
			return e.WithCode(mcp.CodeResourceNotFound)
		}
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return upstreamCode(e)
	}
	return e
}
