package wire

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// rev20260728 is the revision without sessions. The inner language follows it.
// gateway/front adds what its results must have on top (resultType, cache hints,
// serverInfo) as it writes them, without a copy.
var rev20260728 = Revision{
	Name:          "2026-07-28",
	VersionHeader: true,
	clients: []capability{
		{name: "experimental", any: true},
		{name: "roots"},
		{name: "sampling", members: []string{"context", "tools"}},
		{name: "elicitation", members: []string{"form", "url"}},
		{name: "extensions", any: true},
	},
	servers: []capability{
		{name: "experimental", any: true},
		{name: "logging", any: true},
		{name: "completions", any: true},
		{name: "prompts", any: true},
		{name: "resources", any: true},
		{name: "tools", any: true},
		{name: "skills", any: true}, // SEP-2076
		{name: "extensions", any: true},
	},
	item:   statelessItem,
	error:  statelessError,
	ask:    statelessAsk,
	answer: statelessAnswer,
}

// statelessItem removes what became an extension.
func statelessItem(listMethod string, item mcp.Raw) mcp.Raw {
	if listMethod != mcp.MethodToolsList {
		return item
	}
	return without(item, "execution")
}

// statelessError keeps to the codes that a server of this revision may send (2026-07-28
// basic/index#error-codes).
func statelessError(_ string, e *mcp.Error) *mcp.Error {
	switch code := e.Code; {
	case code == mcp.CodeResourceNotFound:
		return e.WithCode(mcp.CodeInvalidParams)
	case code == mcp.CodeHeaderMismatch, code == mcp.CodeMissingCapability, code == mcp.CodeUnsupportedVersion:
		return e
	case code == mcp.CodeMethodNotFound: // the client would think that the gateway does not know the method
		if _, ok := e.Data.Member("upstream"); ok {
			return upstreamCode(e)
		}
	case code >= -32099 && code <= -32000:
		return upstreamCode(e)
	}
	return e
}

// upstreamCode replaces an error with a code that must not be relayed, and mentions that code.
func upstreamCode(e *mcp.Error) *mcp.Error {
	return e.WithCode(mcp.CodeInternal).WithData(mcp.Object("upstreamCode", mcp.Int(int64(e.Code)), "upstreamMessage",
		mcp.String(e.Message)))
}

// statelessAsk removes the id of a URL question: nothing could refer to it.
func statelessAsk(method string, params mcp.Raw) (mcp.Raw, error) {
	if method != mcp.MethodElicit {
		return params, nil
	}
	return without(params, "elicitationId"), nil
}

// statelessAnswer removes _meta, which answers have only in revisions where they are
// responses.
func statelessAnswer(method string, answer mcp.Raw) (mcp.Raw, error) {
	if method == mcp.MethodCreateMessage {
		return answer, nil
	}
	return without(answer, "_meta"), nil
}
