// Package unfold gives the full tools of a server that discloses them progressively itself
// (the extension of that name, 2.1).
//
// It is one stage of the way to a server. It puts the descriptions that the server has in a
// resource into the lists of tools. If a call is refused because nobody has read the
// description in its session, it reads that and makes the call again. It leaves how the
// gateway's own clients are told of tools to gateway/feature/disclosure. It starts no
// goroutines.
package unfold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Bounds of reading descriptions.
const (
	maxTools     = 10_000 // of which it is known that they have a description
	maxDescribed = 20     // tools at a time
	maxPages     = 5      // of resources that are looked through for the descriptions
	maxLogged    = 200    // bytes of a URI
)

// Unfold is what is known of the descriptions of a server. Its methods may be called
// concurrently.
type Unfold struct {
	log   *slog.Logger
	learn func(c *mcp.Call, page *mcp.List) *mcp.List
	some  atomic.Bool // there are any descriptions: the usual case needs no lock

	mu    sync.Mutex // guards the fields below
	uri   string     // of the resource that has them
	tools map[string]bool
}

// New returns the Unfold of a server. learn is called with each page of tools that was put
// together here, and returns it without those that cannot be called.
func New(log *slog.Logger, learn func(c *mcp.Call, page *mcp.List) *mcp.List) *Unfold {
	return &Unfold{log: log, learn: learn}
}

// stage is Unfold where calls pass.
type stage struct {
	*Unfold
	next mcp.Handler
}

// Middleware unfolds lists of tools, leaves the descriptions out of lists of resources and
// makes calls again. All else passes.
func (u *Unfold) Middleware(next mcp.Handler) mcp.Handler {
	s := stage{u, next}
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		reply, err := next.Handle(ctx, c)
		switch listed := err == nil && reply.List != nil; c.Method {
		case mcp.MethodToolsList:
			if listed {
				return s.unfold(ctx, c, reply), nil
			}
		case mcp.MethodToolsCall:
			if u.some.Load() {
				return s.again(ctx, c, reply, err)
			}
		case mcp.MethodResourcesList, mcp.MethodResourceTemplatesList:
			if listed && u.some.Load() {
				return withoutDescriptions(reply), nil
			}
		}
		return reply, err
	})
}

// unfold puts the full descriptions into a page of tools that has only short ones, as far
// as the server tells them.
func (s stage) unfold(ctx context.Context, c *mcp.Call, page *mcp.Reply) *mcp.Reply {
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
			s.log.WarnContext(ctx, "descriptions of tools cannot be read", slog.String("uri", uri[:min(len(uri), maxLogged)]), slog.Any("error", err))
			break
		}
		for _, name := range names {
			if one, ok := told.Member(name); ok && one.IsObject() && wire.CheckObject(one, "description", "inputSchema", "outputSchema") == nil {
				full[name] = one
			}
		}
	}
	list := &mcp.List{Next: page.List.Next, Expires: page.List.Expires, Private: page.List.Private}
	for _, item := range page.List.Items {
		if one, ok := full[item.Name]; ok {
			item.Raw = unfolded(item.Raw, one)
		}
		list.Items = append(list.Items, item)
	}
	return &mcp.Reply{List: s.learn(c, list)}
}

// isShort reports whether a tool has the schema that stands in place of one.
func isShort(tool mcp.Raw) bool {
	schema, ok := tool.Member("inputSchema")
	if !ok {
		return true
	}
	_, properties := schema.Member("properties")
	additional, _ := schema.Member("additionalProperties")
	return !properties && additional.IsTrue()
}

// unfolded is a tool of a list with what its description tells. What the list says in short
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
	meta, _ := tool.Member("_meta")
	edits := []mcp.Edit{{Name: "_meta", Value: meta.Edit(mcp.Edit{Name: mcp.MetaGuidance, Value: guidance})}}
	if text, ok := full.Member("description"); ok && text.Text() != "" {
		edits = append(edits, mcp.Edit{Name: "description", Value: text})
	}
	for _, name := range []string{"inputSchema", "outputSchema"} {
		if schema, ok := full.Member(name); ok && schema.IsObject() {
			edits = append(edits, mcp.Edit{Name: name, Value: schema})
		}
	}
	return tool.Edit(edits...)
}

// find returns the URI of the server's descriptions, "" without any.
func (s stage) find(ctx context.Context, c *mcp.Call) string {
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

// aside is a call of our own on behalf of the caller of another one, in the same session.
func aside(c *mcp.Call, method string) *mcp.Call {
	return &mcp.Call{
		ID: c.ID, Method: method, Caller: c.Caller, Session: c.Session, Ephemeral: c.Ephemeral, Caps: c.Caps,
		LogLevel: c.LogLevel, Notify: func(mcp.Event) {},
	}
}

// read reads an object of descriptions.
func (s stage) read(ctx context.Context, c *mcp.Call, uri string) (mcp.Raw, error) {
	call := aside(c, mcp.MethodResourcesRead)
	call.Name, call.Params = uri, mcp.Object("uri", mcp.String(uri))
	reply, err := s.next.Handle(ctx, call)
	if err != nil {
		return nil, err
	}
	contents, _ := reply.Result.Member("contents")
	var text string
	contents.Elements(func(one mcp.Raw) bool {
		value, ok := one.Member("text")
		text = value.Text()
		return !ok
	})
	return wire.TextObject(text)
}

// selection is the URI of some descriptions.
func selection(uri string, names []string) string {
	var out strings.Builder
	out.WriteString(uri + "?tools=")
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		for j := range len(name) {
			if c := name[j]; c <= ' ' || c > '~' || strings.IndexByte(`%&#+?`, c) >= 0 {
				fmt.Fprintf(&out, "%%%02X", c)
			} else {
				out.WriteByte(c)
			}
		}
	}
	return out.String()
}

func (u *Unfold) add(uri string, names []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.uri != uri || len(u.tools)+len(names) > maxTools {
		u.uri, u.tools = uri, make(map[string]bool, len(names))
	}
	for _, name := range names {
		u.tools[name] = true
	}
	u.some.Store(true)
}

// of returns the URI of the descriptions if the tool is among those that have one.
func (u *Unfold) of(tool string) (uri string, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.uri, u.tools[tool]
}

// again looks whether a call was refused because its description was not read in its
// session, and, if so, reads that and makes the call once more: it has not run.
func (s stage) again(ctx context.Context, c *mcp.Call, reply *mcp.Reply, err error) (*mcp.Reply, error) {
	if c.State != "" || c.Answers != nil || c.Refused != nil || !wantsDescription(reply, err) {
		return reply, err
	}
	uri, ok := s.of(c.Name)
	if !ok {
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
		got, _ := body.Member("code")
		return got.Text() == code
	}
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return says(string(e.Data)) || says(e.Message)
	}
	if err != nil || reply == nil || reply.Result == nil {
		return false
	}
	if isError, _ := reply.Result.Member("isError"); !isError.IsTrue() {
		return false
	}
	content, _ := reply.Result.Member("content")
	found := false
	content.Elements(func(block mcp.Raw) bool {
		text, _ := block.Member("text")
		found = says(text.Text())
		return false // the first one alone
	})
	return found
}

// withoutDescriptions leaves the server's descriptions out of a page of its resources:
// clients are told them in the lists of tools.
func withoutDescriptions(page *mcp.Reply) *mcp.Reply {
	ours := func(item mcp.Item) bool {
		uri, _, _ := strings.Cut(item.Name, "{")
		return isDescriptions(uri)
	}
	if !slices.ContainsFunc(page.List.Items, ours) {
		return page
	}
	kept := slices.DeleteFunc(slices.Clone(page.List.Items), ours)
	return &mcp.Reply{List: &mcp.List{Items: kept, Next: page.List.Next, Expires: page.List.Expires, Private: page.List.Private}}
}
