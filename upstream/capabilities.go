package upstream

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// maxExtensions bounds what of a client's declared extensions is passed on.
const maxExtensions = 4 << 10

// capabilities are what a server is told that it can ask: never more than the client
// declared, and only what can be relayed.
type capabilities struct {
	raw string // a ClientCapabilities object

	roots         bool
	rootsChange   bool // roots.listChanged
	sampling      bool
	samplingTools bool
	form          bool // elicitation in form mode
	url           bool // elicitation in URL mode
	tasks         bool // the extension
}

// declare makes what a server of this revision is told from what the client said. The
// tasks that 2025-11-25 clients can run for servers are left out, since their messages are
// not relayed, and the context of sampling, which would be that of other servers too. The
// extension for tasks is of 2026-07-28 alone.
func declare(client mcp.Raw, rev *wire.Revision) capabilities {
	if len(client) <= len("{}") {
		return capabilities{raw: "{}"}
	}
	c := readCapabilities(client)
	raw := rev.ClientCaps(c.object(client, !rev.Stateful))
	if !raw.IsObject() {
		return capabilities{raw: "{}"}
	}
	c = readCapabilities(raw)
	c.raw = string(raw)
	return c
}

// neutral is what the gateway declares where it looks at a server for itself: many servers
// list some of their tools only to clients that can be asked. It answers what it is asked
// then (forNobody). A process that clients share declares nothing, since their calls run
// there, and which of them it asks nobody knows.
func (u *Upstream) neutral(rev *wire.Revision) capabilities {
	if rev.Stateful && u.cfg.Shared && u.cfg.Transport == transportStdio {
		return capabilities{raw: "{}"}
	}
	return declare(mcp.Raw(`{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`), rev)
}

func readCapabilities(client mcp.Raw) (c capabilities) {
	if roots, ok := client.Member("roots"); ok {
		c.roots = true
		changed, _ := roots.Member("listChanged")
		c.rootsChange = changed.IsTrue()
	}
	if sampling, ok := client.Member("sampling"); ok {
		c.sampling = true
		_, c.samplingTools = sampling.Member("tools")
	}
	if elicitation, ok := client.Member("elicitation"); ok {
		_, c.form = elicitation.Member("form")
		_, c.url = elicitation.Member("url")
		c.form = c.form || !c.url // {} means form, 2025-11-25 client/elicitation
	}
	c.tasks = mcp.DeclaresTasks(client)
	return c
}

func (c capabilities) object(client mcp.Raw, tasks bool) mcp.Raw {
	var members []string
	switch {
	case c.rootsChange:
		members = append(members, `"roots":{"listChanged":true}`)
	case c.roots:
		members = append(members, `"roots":{}`)
	}
	if c.sampling {
		members = append(members, `"sampling":`+flags("tools", c.samplingTools))
	}
	if c.form || c.url {
		members = append(members, `"elicitation":`+flags("form", c.form, "url", c.url))
	}
	if extensions, ok := client.Member("extensions"); ok && extensions.IsObject() && len(extensions) <= maxExtensions {
		if !tasks {
			extensions = extensions.Without(mcp.TasksExtension)
		}
		if len(extensions) > len("{}") {
			members = append(members, `"extensions":`+string(extensions))
		}
	}
	return mcp.Raw("{" + strings.Join(members, ",") + "}")
}

// flags is an object with the names in it that hold, each followed by whether it does.
func flags(names ...any) string {
	var members []string
	for i := 0; i+1 < len(names); i += 2 {
		if names[i+1].(bool) {
			members = append(members, `"`+names[i].(string)+`":{}`)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// has reports whether these capabilities, by their names, were declared.
func (c capabilities) has(required mcp.Raw) bool {
	all := true
	required.Each(func(name string, _ mcp.Raw) bool {
		_, all = mcp.Raw(c.raw).Member(name)
		return all
	})
	return all
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

// withoutContext takes out of a question which context of the conversation the client
// is to add: what is one server to the client are many servers here, and none may see
// what the others said.
func withoutContext(method string, params mcp.Raw) mcp.Raw {
	if method != mcp.MethodCreateMessage {
		return params
	}
	if which, ok := params.Member("includeContext"); !ok || which.Text() == "none" {
		return params
	}
	return params.Without("includeContext")
}

// serverCaps are the capabilities of a server that decide what we do.
type serverCaps struct {
	logging   bool
	tasks     bool      // tools run as tasks of 2025-11-25
	subscribe bool      // resources.subscribe
	lists     mcp.Lists // listChanged
}

func readServerCaps(caps mcp.Raw) (s serverCaps) {
	_, s.logging = caps.Member("logging")
	s.tasks, _ = mcp.OffersTasks(caps)
	flag := func(feature, name string) bool {
		f, _ := caps.Member(feature)
		v, _ := f.Member(name)
		return v.IsTrue()
	}
	s.subscribe = flag("resources", "subscribe")
	for feature, list := range map[string]mcp.Lists{
		"tools": mcp.ToolLists, "prompts": mcp.PromptLists, "resources": mcp.ResourceLists, "skills": mcp.SkillLists,
	} {
		if flag(feature, "listChanged") {
			s.lists |= list
		}
	}
	return s
}
