package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// This file is for servers that disclose their tools progressively by themselves (the
// extension of that name, 2.1): lists are told in full all the same, and a call that is
// refused because its description was not read in its session is made again after that.

// Bounds of reading descriptions.
const (
	maxDescribed    = 20 // tools at a time
	maxLookedAt     = 5  // pages of resources that are looked through for the descriptions
	describedSuffix = "tool_descriptions"
)

// disclosed is what is known of the descriptions of a server.
type disclosed struct {
	on atomic.Bool // there are any

	mu    sync.Mutex // guards the fields below
	uri   string     // of the resource that has them
	tools map[string]bool
}

// disclosing makes a call at a server that may disclose its tools.
func (u *Upstream) disclosing(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := u.call(ctx, c)
	switch {
	case c.Method == mcp.MethodToolsList && err == nil && reply.List != nil:
		return u.unfold(ctx, c, reply), nil
	case !u.disclosed.on.Load():
	case c.Method == mcp.MethodToolsCall:
		return u.describeAndRepeat(ctx, c, reply, err)
	case err == nil && reply.List != nil:
		return u.withoutDescriptions(reply), nil
	}
	return reply, err
}

// unfold puts the full descriptions into a page of tools that has only short ones, as far
// as the server tells them.
func (u *Upstream) unfold(ctx context.Context, c *mcp.Call, page *mcp.Reply) *mcp.Reply {
	var short []string
	for _, item := range page.List.Items {
		if isShort(item.Raw) && item.Name != "" && !strings.Contains(item.Name, ",") {
			short = append(short, item.Name)
		}
	}
	if len(short) == 0 {
		return page
	}
	uri := u.findDescriptions(ctx, c)
	if uri == "" {
		return page
	}
	u.disclosed.add(uri, short)
	full := make(map[string]mcp.Raw)
	for names := range slices.Chunk(short, maxDescribed) {
		told, err := u.readDescriptions(ctx, c, selection(uri, names))
		if err != nil {
			u.log.WarnContext(ctx, "descriptions of tools cannot be read", slog.String("uri", clip(uri)), slog.Any("error", err))
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
			item.Raw = described(item.Raw, one)
		}
		list.Items = append(list.Items, item)
	}
	if !u.isStateful() { // arguments that are mirrored into headers may stand there
		list = u.tools.learn(u, c.Params, list)
	}
	return &mcp.Reply{List: list}
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

// described is a tool of a list with what its description tells. What the list says in
// short stays as a summary.
func described(tool, full mcp.Raw) mcp.Raw {
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

// findDescriptions returns the URI of the server's descriptions, "" without any.
func (u *Upstream) findDescriptions(ctx context.Context, c *mcp.Call) string {
	call := aside(c, mcp.MethodResourcesList)
	for range maxLookedAt {
		reply, err := u.call(ctx, call)
		if err != nil || reply.List == nil {
			return ""
		}
		for _, item := range reply.List.Items {
			if isDescriptions(item.Name) {
				return item.Name
			}
		}
		if reply.List.Next == nil {
			return ""
		}
		call = call.Clone()
		call.Params = mcp.Object("cursor", mcp.String(*reply.List.Next))
	}
	return ""
}

func isDescriptions(uri string) bool { return strings.HasSuffix(uri, "/"+describedSuffix) }

// aside is a call of our own on behalf of the caller of another one, in the same session.
func aside(c *mcp.Call, method string) *mcp.Call {
	return &mcp.Call{
		ID: c.ID, Method: method, Caller: c.Caller, Session: c.Session, Ephemeral: c.Ephemeral, Caps: c.Caps,
		LogLevel: c.LogLevel, Notify: func(mcp.Event) {},
	}
}

// readDescriptions reads an object of descriptions.
func (u *Upstream) readDescriptions(ctx context.Context, c *mcp.Call, uri string) (mcp.Raw, error) {
	call := aside(c, mcp.MethodResourcesRead)
	call.Name, call.Params = uri, mcp.Object("uri", mcp.String(uri))
	reply, err := u.call(ctx, call)
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
	return objectIn(text)
}

// objectIn reads an object that stands in a text of a server.
func objectIn(text string) (mcp.Raw, error) {
	if !json.Valid([]byte(text)) || !mcp.Raw(strings.TrimLeft(text, " \t\r\n")).IsObject() {
		return nil, errors.New("the text is no JSON object")
	}
	m, err := wire.ScanUpstream([]byte(`{"jsonrpc":"2.0","id":1,"result":` + text + `}`)) // deeper than others look
	return m.Result, err
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
				const hex = "0123456789ABCDEF"
				out.Write([]byte{'%', hex[c>>4], hex[c&15]})
			} else {
				out.WriteByte(c)
			}
		}
	}
	return out.String()
}

func (d *disclosed) add(uri string, names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uri != uri || d.tools == nil || len(d.tools)+len(names) > maxTools {
		d.uri, d.tools = uri, make(map[string]bool, len(names))
	}
	for _, name := range names {
		d.tools[name] = true
	}
	d.on.Store(true)
}

// of returns the URI of the descriptions if the tool is among those that have one.
func (d *disclosed) of(tool string) (uri string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uri, d.tools[tool]
}

// describeAndRepeat looks whether a call was refused because its description was not read
// in its session, and, if so, reads that and makes the call once more: it has not run.
func (u *Upstream) describeAndRepeat(ctx context.Context, c *mcp.Call, reply *mcp.Reply, err error) (*mcp.Reply, error) {
	if c.State != "" || c.Answers != nil || c.Refused != nil || !wantsDescription(reply, err) {
		return reply, err
	}
	uri, ok := u.disclosed.of(c.Name)
	if !ok {
		return reply, err
	}
	if _, unread := u.readDescriptions(ctx, c, selection(uri, []string{c.Name})); unread != nil {
		u.log.DebugContext(ctx, "the description that a call needs cannot be read", slog.Any("error", unread))
		return reply, err
	}
	return u.call(ctx, c)
}

// wantsDescription reports whether an answer is TOOL_DESCRIPTION_REQUIRED: as the result of
// a tool, which some put a text of their own in front of, or as an error.
func wantsDescription(reply *mcp.Reply, err error) bool {
	const code = "TOOL_DESCRIPTION_REQUIRED"
	says := func(text string) bool {
		if !strings.Contains(text, code) {
			return false
		}
		body, err := objectIn(text[max(0, strings.IndexByte(text, '{')):])
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
func (u *Upstream) withoutDescriptions(page *mcp.Reply) *mcp.Reply {
	ours := func(item mcp.Item) bool {
		uri, _, _ := strings.Cut(item.Name, "{")
		return isDescriptions(uri)
	}
	if !slices.ContainsFunc(page.List.Items, ours) {
		return page
	}
	list := &mcp.List{Next: page.List.Next, Expires: page.List.Expires, Private: page.List.Private, Items: []mcp.Item{}}
	for _, item := range page.List.Items {
		if !ours(item) {
			list.Items = append(list.Items, item)
		}
	}
	return &mcp.Reply{List: list}
}
