package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Bounds of reading descriptions.
const (
	maxUnfolded  = 10_000 // that are known to have a description
	maxDescribed = 20     // tools at a time
	maxPages     = 5      // of resources that are searched for the descriptions
	maxLogged    = 200    // bytes of a URI
)

// unfolder restores the full tools of a server that discloses them progressively (the extension of
// that name, 2.1). It puts the descriptions that the server has in a resource into the lists of
// tools. A call that is refused because its description was not read in its session is made again
// after that. How the gateway's own clients get tools is gateway/feature/disclosure's.
type unfolder struct {
	next  mcp.Handler
	log   *slog.Logger
	learn func(c *mcp.Call, page *mcp.List) *mcp.List

	mu    sync.Mutex      // guards the fields below
	uri   string          // of the resource that has them, "" as long as none is known
	tools map[string]bool // that are described there
}

// unfolding unfolds lists of tools, leaves the descriptions out of lists of resources and
// makes calls again. All else passes. learn is called with each page of tools that was put
// together here, and returns it without those that cannot be called.
func unfolding(log *slog.Logger, learn func(c *mcp.Call, page *mcp.List) *mcp.List) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		s := &unfolder{next: next, log: log, learn: learn}
		return mcp.HandlerFunc(s.handle)
	}
}

func (s *unfolder) handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	uri, described := s.of(c.Name)
	switch listed := err == nil && reply.List != nil; {
	case c.Method == mcp.MethodToolsList && listed:
		return s.unfold(ctx, c, reply), nil
	case c.Method == mcp.MethodToolsCall && described:
		return s.again(ctx, c, uri, reply, err)
	case (c.Method == mcp.MethodResourcesList || c.Method == mcp.MethodResourceTemplatesList) && listed && uri != "":
		return withoutDescriptions(reply), nil
	}
	return reply, err
}

// unfold puts full descriptions into a page of tools with short ones, as far as the server has
// them.
func (s *unfolder) unfold(ctx context.Context, c *mcp.Call, page *mcp.Reply) *mcp.Reply {
	var short []string
	for _, item := range page.List.Items {
		if isShort(item.Raw) && item.Name != "" && !strings.Contains(item.Name, ",") {
			short = append(short, item.Name)
		}
	}
	if len(short) == 0 {
		return page
	}
	uri := s.find(ctx, c)
	if uri == "" {
		return page
	}
	s.add(uri, short)
	full := make(map[string]mcp.Raw)
	for names := range slices.Chunk(short, maxDescribed) {
		told, err := s.read(ctx, c, selection(uri, names))
		if err != nil {
			s.log.WarnContext(ctx, "descriptions of tools cannot be read", mcp.FailureOf(err).Attr(),
				slog.String("uri", uri[:min(len(uri), maxLogged)]), slog.Any("error", err))
			break
		}
		for _, name := range names {
			if one := told.At(name); one.IsObject() && wire.CheckObject(one, "description", "inputSchema",
				"outputSchema") == nil {
				full[name] = one
			}
		}
	}
	items := slices.Clone(page.List.Items)
	for i, item := range items {
		if one, ok := full[item.Name]; ok {
			items[i].Raw = unfolded(item.Raw, one)
		}
	}
	return &mcp.Reply{List: s.learn(c, page.List.With(items))}
}

// isShort reports whether a tool has the schema that stands in place of one.
func isShort(tool mcp.Raw) bool {
	schema, ok := tool.Member("inputSchema")
	if !ok {
		return true
	}
	_, properties := schema.Member("properties")
	return !properties && schema.At("additionalProperties").IsTrue()
}

// unfolded returns a tool of a list with its full description. What the list says in short
// stays as a summary.
func unfolded(tool, full mcp.Raw) mcp.Raw {
	guidance := mcp.Raw("{}")
	if summary, ok := tool.Member("description"); ok {
		guidance = guidance.With("summary", summary)
	}
	for _, name := range []string{"examples", "usage_guidance", "error_guidance"} {
		if value, ok := full.Member(name); ok {
			guidance = guidance.With(name, value)
		}
	}
	edits := []mcp.Edit{{Name: "_meta", Value: tool.At("_meta").Edit(mcp.Edit{Name: mcp.MetaGuidance, Value: guidance})}}
	if text := full.At("description"); text.Text() != "" {
		edits = append(edits, mcp.Edit{Name: "description", Value: text})
	}
	for _, name := range []string{"inputSchema", "outputSchema"} {
		if schema := full.At(name); schema.IsObject() {
			edits = append(edits, mcp.Edit{Name: name, Value: schema})
		}
	}
	return tool.Edit(edits...)
}

// find returns the URI of the server's descriptions, "" without any.
func (s *unfolder) find(ctx context.Context, c *mcp.Call) string {
	for page, err := range mcp.Pages(ctx, s.next, aside(c, mcp.MethodResourcesList), maxPages) {
		if err != nil {
			return ""
		}
		for _, item := range page.Items {
			if isDescriptions(item.Name) {
				return item.Name
			}
		}
	}
	return ""
}

func isDescriptions(uri string) bool { return strings.HasSuffix(uri, "/tool_descriptions") }

// aside makes a call of our own on behalf of the caller of another one, in the same session.
func aside(c *mcp.Call, method string) *mcp.Call {
	return &mcp.Call{
		ID: c.ID, Method: method, Caller: c.Caller, Session: c.Session, Ephemeral: c.Ephemeral, Caps: c.Caps,
		LogLevel: c.LogLevel, Trace: c.Trace, Notify: func(mcp.Event) {},
	}
}

// read reads an object of descriptions.
func (s *unfolder) read(ctx context.Context, c *mcp.Call, uri string) (mcp.Raw, error) {
	call := aside(c, mcp.MethodResourcesRead)
	call.Name, call.Params = uri, mcp.Object("uri", mcp.String(uri))
	reply, err := s.next.Handle(ctx, call)
	if err != nil {
		return nil, err
	}
	var text string
	reply.Result.At("contents").Elements(func(one mcp.Raw) bool {
		value, ok := one.Member("text")
		text = value.Text()
		return !ok
	})
	return wire.TextObject(text)
}

// selection returns the URI of the descriptions of these tools.
func selection(uri string, names []string) string {
	plain := func(c byte) bool { return c > ' ' && c <= '~' && strings.IndexByte(`%&#+?`, c) < 0 }
	return uri + "?tools=" + mcp.Escape(strings.Join(names, ","), plain)
}

func (s *unfolder) add(uri string, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uri != uri || len(s.tools)+len(names) > maxUnfolded {
		s.uri, s.tools = uri, make(map[string]bool, len(names))
	}
	for _, name := range names {
		s.tools[name] = true
	}
}

// of returns the URI of the descriptions, and whether the tool is among those that have one.
func (s *unfolder) of(tool string) (uri string, described bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uri, s.tools[tool]
}

// again checks whether a call was refused because its description was not read in its
// session. If so, it reads that and makes the call once more: it has not run.
func (s *unfolder) again(ctx context.Context, c *mcp.Call, uri string, reply *mcp.Reply, err error) (*mcp.Reply, error) {
	if len(c.Round) > 0 || c.Answers != nil || c.Refused != nil || !wantsDescription(reply, err) {
		return reply, err
	}
	if _, unread := s.read(ctx, c, selection(uri, []string{c.Name})); unread != nil {
		s.log.DebugContext(ctx, "the description that a call needs cannot be read", slog.Any("error", unread))
		return reply, err
	}
	return s.next.Handle(ctx, c)
}

// wantsDescription reports whether an answer is TOOL_DESCRIPTION_REQUIRED: as the result of
// a tool, which some put a text of their own in front of, or as an error.
func wantsDescription(reply *mcp.Reply, err error) bool {
	const code = "TOOL_DESCRIPTION_REQUIRED"
	says := func(text string) bool {
		if !strings.Contains(text, code) {
			return false
		}
		body, err := wire.TextObject(text[max(0, strings.IndexByte(text, '{')):])
		if err != nil {
			return false
		}
		if inner, ok := body.Member("error"); ok {
			body = inner
		}
		return body.At("code").Text() == code
	}
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return says(string(e.Data)) || says(e.Message)
	}
	if err != nil || reply == nil || !reply.Result.At("isError").IsTrue() {
		return false
	}
	found := false
	reply.Result.At("content").Elements(func(block mcp.Raw) bool {
		found = says(block.At("text").Text())
		return false // the first one alone
	})
	return found
}

// withoutDescriptions leaves the server's descriptions out of a page of its resources:
// clients read them in the lists of tools.
func withoutDescriptions(page *mcp.Reply) *mcp.Reply {
	ours := func(item mcp.Item) bool {
		uri, _, _ := strings.Cut(item.Name, "{")
		return isDescriptions(uri)
	}
	if !slices.ContainsFunc(page.List.Items, ours) {
		return page
	}
	return &mcp.Reply{List: page.List.With(slices.DeleteFunc(slices.Clone(page.List.Items), ours))}
}
