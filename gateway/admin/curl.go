package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// curl returns a command that makes the call again at its endpoint, as a client without a session
// makes it. arguments are nil if they are not known. It returns "" for methods that need more than
// one request.
func curl(state State, d *Decision, arguments mcp.Raw) string {
	params := mcp.Raw("{}")
	switch d.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		params = mcp.Object("name", mcp.String(d.Name))
		if arguments == nil {
			arguments = mcp.Raw("{}")
		}
		params = params.With("arguments", arguments)
	case mcp.MethodResourcesRead:
		params = mcp.Object("uri", mcp.String(d.Name))
	case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList,
		mcp.MethodDiscover:
	default:
		return ""
	}
	rev := wire.Stateless()
	params = params.With("_meta", mcp.Object(wire.MetaVersion, mcp.String(rev.Name), wire.MetaClientCaps, mcp.Raw("{}"),
		wire.MetaClientInfo, mcp.Object("name", mcp.String("curl"), "version", mcp.String("1"))))
	lines := []string{"curl " + quoted(endpointOf(state, d))}
	if state.Auth != auth.ModeNone {
		lines = append(lines, `-H "Authorization: Bearer $TOKEN"`)
	}
	lines = append(lines,
		"-H 'Content-Type: application/json'",
		"-H 'Accept: application/json, text/event-stream'",
		"-H "+quoted("MCP-Protocol-Version: "+rev.Name),
		"-H "+quoted("Mcp-Method: "+d.Method),
	)
	if mcp.NameMember(d.Method) != "" {
		lines = append(lines, "-H "+quoted("Mcp-Name: "+wire.EncodeHeader(d.Name)))
	}
	body := wire.AppendRequest(nil, mcp.Raw("1"), d.Method, params)
	return strings.Join(append(lines, "-d "+quoted(visible(string(body)))), " \\\n  ")
}

// quoted quotes a text for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// visible escapes invisible characters in JSON, such as those that change the direction of text.
func visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		case r < ' ' || r == 0x7f: // white space between tokens; in strings it is escaped already
			out.WriteByte(' ')
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// sentArguments returns the arguments that the client sent, nil unless all of them are kept.
func sentArguments(v trail.View) mcp.Raw {
	for _, m := range v.Messages {
		if m.Edge != trail.Client || !m.In || m.Bytes > len(m.Text) || !json.Valid(m.Text) {
			continue
		}
		arguments := mcp.Raw(m.Text).At("params", "arguments")
		if arguments.IsObject() {
			return arguments
		}
		return nil
	}
	return nil
}

// endpointOf returns the URL of the endpoint of a call.
func endpointOf(state State, d *Decision) string {
	for _, v := range state.Views {
		if v.Name == d.View {
			return v.URL
		}
	}
	return state.Endpoint
}
