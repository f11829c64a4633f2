package dialect

import (
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Capabilities are what the gateway declares to a server on behalf of a client: never more
// than the client declared, and only what can be relayed.
type Capabilities struct {
	mcp.Declared
	Raw   string // a ClientCapabilities object
	Tasks bool   // the extension for tasks
}

// Declare returns the capabilities to declare to a server of this revision, from what the client
// declared. It leaves out the tasks that 2025-11-25 clients can run for servers, since their
// messages are not relayed. It also leaves out the context of sampling, which would include what
// other servers said. Only stateless servers get the extension for tasks.
func Declare(client mcp.Raw, rev *wire.Revision) Capabilities {
	if len(client) <= len("{}") {
		return Capabilities{Raw: "{}"}
	}
	d := mcp.ReadDeclared(client)
	if rev.Stateful {
		d.Extensions = d.Extensions.Without(mcp.TasksExtension)
	}
	raw := rev.ClientCaps(d.Object())
	return Capabilities{Declared: mcp.ReadDeclared(raw), Raw: string(raw), Tasks: mcp.DeclaresTasks(raw)}
}

// everything is the declaration of a client that can do all that the gateway relays.
const everything = `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{` +
	`"` + mcp.TasksExtension + `":{},"` + mcp.SkillsExtension + `":{},"` + mcp.UIExtension +
	`":{"mimeTypes":["text/html;profile=mcp-app"]}}}`

// Neutral returns what the gateway declares in a call of its own: everything that it relays,
// because many servers list some of their tools only to clients that can be asked; or, to
// see what a client sees that declares less, the capabilities of the call.
func Neutral(c *mcp.Call, rev *wire.Revision) Capabilities {
	if c.Caps != nil {
		return Declare(c.Caps, rev)
	}
	return Declare(mcp.Raw(everything), rev)
}

// WithTasks returns the capabilities with the extension for tasks.
func (c Capabilities) WithTasks() Capabilities {
	raw := mcp.Raw(c.Raw)
	c.Raw, c.Tasks = string(raw.With("extensions", raw.At("extensions").With(mcp.TasksExtension, mcp.Raw(`{}`)))), true
	return c
}

// Has reports whether the capabilities named in required were declared.
func (c Capabilities) Has(required mcp.Raw) bool {
	all := true
	required.Each(func(name string, _ mcp.Raw) bool {
		_, all = mcp.Raw(c.Raw).Member(name)
		return all
	})
	return all
}

// Any reports whether the server can ask anything.
func (c Capabilities) Any() bool { return c.Roots || c.Sampling || c.Form || c.URL }

// Refuses returns why a question cannot be put to the client, nil if it can.
func (c Capabilities) Refuses(method string, params mcp.Raw) *mcp.Error {
	switch method {
	case mcp.MethodRootsList:
		if !c.Roots {
			return mcp.Errorf(failure.QuestionImpossible, "the client has no roots").WithCode(mcp.CodeMethodNotFound)
		}
	case mcp.MethodCreateMessage:
		_, tools := params.Member("tools")
		_, choice := params.Member("toolChoice")
		switch {
		case !c.Sampling:
			return mcp.Errorf(failure.QuestionImpossible, "the client does not sample").WithCode(mcp.CodeMethodNotFound)
		case (tools || choice) && !c.SamplingTools:
			return mcp.Errorf(failure.QuestionImpossible,
				"the client does not sample with tools").WithCode(mcp.CodeInvalidParams)
		}
	case mcp.MethodElicit:
		url := wire.IsURLMode(params)
		switch {
		case !c.Form && !c.URL:
			return mcp.Errorf(failure.QuestionImpossible, "the client does not elicit").WithCode(mcp.CodeMethodNotFound)
		case url && !c.URL:
			return mcp.Errorf(failure.QuestionImpossible,
				"the client does not elicit in url mode").WithCode(mcp.CodeInvalidParams)
		case !url && !c.Form:
			return mcp.Errorf(failure.QuestionImpossible,
				"the client does not elicit in form mode").WithCode(mcp.CodeInvalidParams)
		}
	default:
		return mcp.ErrMethod(method)
	}
	return nil
}

// withoutContext removes from a question the request for context of the conversation. The
// client sees only one server, the gateway, so it would add what other servers have said.
func withoutContext(method string, params mcp.Raw) mcp.Raw {
	which, ok := params.Member("includeContext")
	if method != mcp.MethodCreateMessage || !ok || which.Text() == "none" {
		return params
	}
	return params.Without("includeContext")
}

// Server holds the capabilities of a server that affect the gateway.
type Server struct {
	Logging   bool
	Tasks     bool      // tools run as tasks of 2025-11-25
	Subscribe bool      // resources.Subscribe
	Offers    mcp.Lists // which lists there are
	Lists     mcp.Lists // listChanged
}

// ReadServer reads a ServerCapabilities object.
func ReadServer(caps mcp.Raw) (s Server) {
	_, s.Logging = caps.Member("logging")
	s.Tasks, _ = mcp.OffersTasks(caps)
	s.Subscribe = caps.At("resources", "subscribe").IsTrue()
	for feature, list := range map[string]mcp.Lists{
		"tools": mcp.ToolLists, "prompts": mcp.PromptLists, "resources": mcp.ResourceLists, "skills": mcp.SkillLists,
	} {
		if caps.At(feature).IsObject() {
			s.Offers |= list
		}
		if caps.At(feature, "listChanged").IsTrue() {
			s.Lists |= list
		}
	}
	if mcp.DeclaresSkills(caps) { // SEP-2640, which has no notification of their changes
		s.Offers |= mcp.SkillLists
	}
	return s
}

// ValidTasks returns a ServerCapabilities object without the form of tasks that the
// server's revision does not have.
func ValidTasks(rev *wire.Revision, caps mcp.Raw) mcp.Raw {
	if !rev.CoreTasks {
		caps = caps.Without("tasks")
	}
	if extensions, ok := caps.Member("extensions"); ok && rev.Stateful && mcp.DeclaresTasks(caps) {
		caps = caps.With("extensions", extensions.Without(mcp.TasksExtension))
	}
	return caps
}
