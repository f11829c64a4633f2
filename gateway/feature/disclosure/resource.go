package disclosure

import (
	"context"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxValues bounds the values of a completion (2026-07-28 server/utilities/completion).
const maxValues = 100

// read reads the gateway's resource. An invalid selection is reported in the content, since hosts
// show the content to the model, but not always an error.
func (s stage) read(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	names, ours := selected(c.Name)
	if !ours {
		if reserved(c.Name) {
			return nil, mcp.ErrUnknown(c.Method, c.Name)
		}
		return s.next.Handle(ctx, c)
	}
	answer, err := s.describe(ctx, c, names, missing())
	if err != nil {
		return nil, err
	}
	content := mcp.Object("uri", mcp.String(c.Name), "mimeType", mcp.Raw(`"application/json"`), "text",
		mcp.String(string(answer.body)))
	// The fetch itself counts as the grant, so no cache may answer in our place.
	return &mcp.Reply{Result: mcp.Object("contents", append(append(mcp.Raw{'['}, content...), ']'))}, nil
}

// complete completes the last name in the parameter tools.
func (s stage) complete(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	ref, _ := c.Params.Member("ref")
	if kind, _ := ref.Member("type"); kind.Text() != "ref/resource" || !reserved(c.Name) {
		return s.next.Handle(ctx, c)
	}
	argument, _ := c.Params.Member("argument")
	if name, _ := argument.Member("name"); name.Text() != "tools" {
		return &mcp.Reply{Result: mcp.Raw(`{"completion":{"values":[]}}`)}, nil
	}
	value, _ := argument.Member("value")
	typed := value.Text()
	last := strings.LastIndexByte(typed, ',') + 1
	all, err := s.tools(ctx, c)
	if err != nil {
		return nil, err
	}
	var values []string
	total := 0
	for _, item := range all {
		if !strings.HasPrefix(item.Name, typed[last:]) {
			continue
		}
		if total++; total <= maxValues {
			values = append(values, typed[:last]+item.Name)
		}
	}
	more := mcp.Raw("false")
	if total > maxValues {
		more = mcp.Raw("true")
	}
	return &mcp.Reply{Result: mcp.Object("completion",
		mcp.Object("values", mcp.Strings(values), "total", mcp.Int(int64(total)), "hasMore", more))}, nil
}

// discover adds the stage's capabilities to the upstreams', and tells models how to use the tools.
func (s stage) discover(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	c = c.Clone()
	c.Preface = Prompt
	reply, err := s.next.Handle(ctx, c)
	if err != nil || reply == nil || !reply.Result.IsObject() {
		return reply, err
	}
	caps, _ := reply.Result.Member("capabilities")
	if !caps.IsObject() {
		caps = mcp.Raw("{}")
	}
	for _, name := range []string{"resources", "completions"} {
		if _, has := caps.Member(name); !has {
			caps = caps.With(name, mcp.Raw("{}"))
		}
	}
	return &mcp.Reply{Result: reply.Result.With("capabilities", caps)}, nil
}
