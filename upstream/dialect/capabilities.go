package dialect

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// maxExtensions bounds what of a client's declared extensions is passed on.
const maxExtensions = 4 << 10

// Capabilities are what a server is told that it can ask: never more than the client
// declared, and only what can be relayed.
type Capabilities struct {
	Raw         string // a ClientCapabilities object
	RootsChange bool   // roots.listChanged
	URL         bool   // elicitation in URL mode
	Tasks       bool   // the extension

	roots         bool
	sampling      bool
	samplingTools bool
	form          bool // elicitation in form mode
}

// Declare makes what a server of this revision is told from what the client said. The
// tasks that 2025-11-25 clients can run for servers are left out, since their messages are
// not relayed, and the context of sampling, which would be that of other servers too. The
// extension for tasks is of 2026-07-28 alone.
func Declare(client mcp.Raw, rev *wire.Revision) Capabilities {
	if len(client) <= len("{}") {
		return Capabilities{Raw: "{}"}
	}
	c := readCapabilities(client)
	raw := rev.ClientCaps(c.object(client, !rev.Stateful))
	if !raw.IsObject() {
		return Capabilities{Raw: "{}"}
	}
	c = readCapabilities(raw)
	c.Raw = string(raw)
	return c
}

func readCapabilities(client mcp.Raw) (c Capabilities) {
	if roots, ok := client.Member("roots"); ok {
		c.roots = true
		changed, _ := roots.Member("listChanged")
		c.RootsChange = changed.IsTrue()
	}
	if sampling, ok := client.Member("sampling"); ok {
		c.sampling = true
		_, c.samplingTools = sampling.Member("tools")
	}
	if elicitation, ok := client.Member("elicitation"); ok {
		_, c.form = elicitation.Member("form")
		_, c.URL = elicitation.Member("url")
		c.form = c.form || !c.URL // {} means form, 2025-11-25 client/elicitation
	}
	c.Tasks = mcp.DeclaresTasks(client)
	return c
}

func (c Capabilities) object(client mcp.Raw, tasks bool) mcp.Raw {
	var members []string
	switch {
	case c.RootsChange:
		members = append(members, `"roots":{"listChanged":true}`)
	case c.roots:
		members = append(members, `"roots":{}`)
	}
	if c.sampling {
		members = append(members, `"sampling":`+flags("tools", c.samplingTools))
	}
	if c.form || c.URL {
		members = append(members, `"elicitation":`+flags("form", c.form, "url", c.URL))
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

// WithTasks are the capabilities with the extension.
func (c Capabilities) WithTasks() Capabilities {
	raw := mcp.Raw(c.Raw)
	extensions, _ := raw.Member("extensions")
	if !extensions.IsObject() {
		extensions = mcp.Raw(`{}`)
	}
	c.Raw, c.Tasks = string(raw.With("extensions", extensions.With(mcp.TasksExtension, mcp.Raw(`{}`)))), true
	return c
}

// Has reports whether these capabilities, by their names, were declared.
func (c Capabilities) Has(required mcp.Raw) bool {
	all := true
	required.Each(func(name string, _ mcp.Raw) bool {
		_, all = mcp.Raw(c.Raw).Member(name)
		return all
	})
	return all
}

// Any reports whether there is something that the server can ask.
func (c Capabilities) Any() bool { return c.roots || c.sampling || c.form || c.URL }

// Refuses says why a question cannot be put to the client, nil if it can.
func (c Capabilities) Refuses(method string, params mcp.Raw) *mcp.Error {
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
		case !c.form && !c.URL:
			return mcp.Errorf(mcp.CodeMethodNotFound, "the client does not elicit")
		case mode.Text() == "url" && !c.URL:
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

// Server are the capabilities of a server that decide what we do.
type Server struct {
	Logging   bool
	Tasks     bool      // tools run as tasks of 2025-11-25
	Subscribe bool      // resources.Subscribe
	Lists     mcp.Lists // listChanged
}

// ReadServer reads a ServerCapabilities object.
func ReadServer(caps mcp.Raw) (s Server) {
	_, s.Logging = caps.Member("logging")
	s.Tasks, _ = mcp.OffersTasks(caps)
	flag := func(feature, name string) bool {
		f, _ := caps.Member(feature)
		v, _ := f.Member(name)
		return v.IsTrue()
	}
	s.Subscribe = flag("resources", "subscribe")
	for feature, list := range map[string]mcp.Lists{
		"tools": mcp.ToolLists, "prompts": mcp.PromptLists, "resources": mcp.ResourceLists, "skills": mcp.SkillLists,
	} {
		if flag(feature, "listChanged") {
			s.Lists |= list
		}
	}
	return s
}

// ValidTasks returns a ServerCapabilities object without the form of tasks that is void in
// the server's revision.
func ValidTasks(rev *wire.Revision, caps mcp.Raw) mcp.Raw {
	if !rev.CoreTasks {
		caps = caps.Without("tasks")
	}
	if extensions, ok := caps.Member("extensions"); ok && rev.Stateful && mcp.DeclaresTasks(caps) {
		caps = caps.With("extensions", extensions.Without(mcp.TasksExtension))
	}
	return caps
}
