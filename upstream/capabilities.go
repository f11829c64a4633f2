package upstream

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// tasksExtension needs more than a relay, so it is never declared.
	tasksExtension = "io.modelcontextprotocol/tasks"
	// maxExtensions bounds what of a client's declared extensions is passed on.
	maxExtensions = 4 << 10
)

// capabilities are what a server is told that it can ask: never more than the client
// declared, and only what can be relayed.
type capabilities struct {
	raw string // a ClientCapabilities object

	roots           bool
	sampling        bool
	samplingTools   bool
	samplingContext bool
	form            bool // elicitation in form mode
	url             bool // elicitation in URL mode
}

// declare makes what a server of this revision is told from what the client said.
// roots.listChanged and tasks are left out, since their messages are not relayed.
func declare(client mcp.Raw, rev *wire.Revision) capabilities {
	if len(client) <= len("{}") {
		return capabilities{raw: "{}"}
	}
	c := readCapabilities(client)
	raw := rev.ClientCaps(c.object(client))
	if !raw.IsObject() {
		return capabilities{raw: "{}"}
	}
	c = readCapabilities(raw)
	c.raw = string(raw)
	return c
}

func readCapabilities(client mcp.Raw) (c capabilities) {
	_, c.roots = client.Member("roots")
	if sampling, ok := client.Member("sampling"); ok {
		c.sampling = true
		_, c.samplingTools = sampling.Member("tools")
		_, c.samplingContext = sampling.Member("context")
	}
	if elicitation, ok := client.Member("elicitation"); ok {
		_, c.form = elicitation.Member("form")
		_, c.url = elicitation.Member("url")
		c.form = c.form || !c.url // {} means form, 2025-11-25 client/elicitation
	}
	return c
}

func (c capabilities) object(client mcp.Raw) mcp.Raw {
	var members []string
	if c.roots {
		members = append(members, `"roots":{}`)
	}
	if c.sampling {
		members = append(members, `"sampling":`+flags("context", c.samplingContext, "tools", c.samplingTools))
	}
	if c.form || c.url {
		members = append(members, `"elicitation":`+flags("form", c.form, "url", c.url))
	}
	if extensions, ok := client.Member("extensions"); ok && extensions.IsObject() && len(extensions) <= maxExtensions {
		if extensions = extensions.Without(tasksExtension); len(extensions) > len("{}") {
			members = append(members, `"extensions":`+string(extensions))
		}
	}
	return mcp.Raw("{" + strings.Join(members, ",") + "}")
}

func flags(first string, hasFirst bool, second string, hasSecond bool) string {
	var members []string
	if hasFirst {
		members = append(members, `"`+first+`":{}`)
	}
	if hasSecond {
		members = append(members, `"`+second+`":{}`)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// any reports whether there is something that the server can ask.
func (c capabilities) any() bool { return c.roots || c.sampling || c.form || c.url }

// refuses says why a question cannot be put to the client, nil if it can.
func (c capabilities) refuses(method string, params mcp.Raw) *mcp.Error {
	switch method {
	case mcp.MethodRootsList:
		if !c.roots {
			return mcp.Errorf(mcp.CodeMethodNotFound, "the client has no roots")
		}
	case mcp.MethodCreateMessage:
		_, tools := params.Member("tools")
		_, choice := params.Member("toolChoice")
		switch {
		case !c.sampling:
			return mcp.Errorf(mcp.CodeMethodNotFound, "the client does not sample")
		case (tools || choice) && !c.samplingTools:
			return mcp.Errorf(mcp.CodeInvalidParams, "the client does not sample with tools")
		}
	case mcp.MethodElicit:
		mode, _ := params.Member("mode")
		switch {
		case !c.form && !c.url:
			return mcp.Errorf(mcp.CodeMethodNotFound, "the client does not elicit")
		case mode.Text() == "url" && !c.url:
			return mcp.Errorf(mcp.CodeInvalidParams, "the client does not elicit in url mode")
		case mode.Text() != "url" && !c.form:
			return mcp.Errorf(mcp.CodeInvalidParams, "the client does not elicit in form mode")
		}
	default:
		return mcp.ErrMethod(method)
	}
	return nil
}

// validAnswer reports whether an answer of the client has the form that the server
// expects; others are not passed on.
func validAnswer(method string, answer mcp.Raw) bool {
	if !answer.IsObject() {
		return false
	}
	switch method {
	case mcp.MethodElicit:
		action, _ := answer.Member("action")
		content, hasContent := answer.Member("content")
		switch action.Text() {
		case "accept", "decline", "cancel":
			return !hasContent || content.IsObject() || content.IsNull()
		}
		return false
	case mcp.MethodCreateMessage:
		_, content := answer.Member("content")
		role, _ := answer.Member("role")
		model, _ := answer.Member("model")
		return content && role.Text() != "" && model.Text() != ""
	case mcp.MethodRootsList:
		roots, _ := answer.Member("roots")
		return roots.IsArray()
	}
	return false
}

// serverCaps are the capabilities of a server that decide what we do.
type serverCaps struct {
	logging   bool
	subscribe bool // resources.subscribe
	tools     bool // tools.listChanged, and so on
	prompts   bool
	resources bool
}

func readServerCaps(caps mcp.Raw) (s serverCaps) {
	_, s.logging = caps.Member("logging")
	flag := func(feature, name string) bool {
		f, _ := caps.Member(feature)
		v, _ := f.Member(name)
		return v.IsTrue()
	}
	s.subscribe = flag("resources", "subscribe")
	s.resources = flag("resources", "listChanged")
	s.tools = flag("tools", "listChanged")
	s.prompts = flag("prompts", "listChanged")
	return s
}
