package catalog

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Keeps reports whether a call of a client without a session may be to an upstream that
// keeps something for that client (Source.Keeps), by what is known here. Nobody is asked. It
// decides where a call is made, not whether: whatever is not known counts as kept.
func (c *Catalog) Keeps(call *mcp.Call) bool {
	switch call.Method {
	case mcp.MethodToolsCall:
		return c.keepsNamed(tools, call)
	case mcp.MethodPromptsGet:
		return c.keepsNamed(prompts, call)
	case mcp.MethodResourcesRead:
		return c.keepsURI(call, call.Name)
	case mcp.MethodComplete:
		ref, _ := call.Params.Member("ref")
		if kind, _ := ref.Member("type"); kind.Text() == "ref/prompt" {
			return c.keepsNamed(prompts, call)
		}
		return c.keepsURI(call, call.Name)
	case mcp.MethodListen:
		return c.keepsListened(call)
	}
	if !mcp.IsTaskMethod(call.Method) {
		return false // lists, and what else is answered from them
	}
	return c.keepsTask(call, call.Name)
}

func (c *Catalog) keepsNamed(k kind, call *mcp.Call) bool {
	s := c.view(&call.Caller)
	to, ok := s.named(k, call.Name)
	if !ok {
		to, ok = s.missing(k, call.Name)
	}
	return !ok || c.sources[to.source].keeps()
}

func (c *Catalog) keepsURI(call *mcp.Call, uri string) bool {
	source, _, ok := c.view(&call.Caller).uris.find(uri)
	return !ok || c.sources[source].keeps()
}

func (c *Catalog) keepsTask(call *mcp.Call, id string) bool {
	_, s, ok := c.openTask(id, &call.Caller)
	return !ok || s.keeps()
}

// keepsListened is for subscriptions/listen, of which resources and tasks are listened to at
// the upstreams' sessions.
func (c *Catalog) keepsListened(call *mcp.Call) (keeps bool) {
	filter, _ := call.Params.Member("notifications")
	uris, _ := filter.Member("resourceSubscriptions")
	uris.Elements(func(uri mcp.Raw) bool {
		keeps = c.keepsURI(call, uri.Text())
		return !keeps
	})
	tasks, _ := filter.Member("taskIds")
	tasks.Elements(func(id mcp.Raw) bool {
		keeps = keeps || c.keepsTask(call, id.Text())
		return !keeps
	})
	return keeps
}
