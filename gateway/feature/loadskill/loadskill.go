package loadskill

import (
	"context"
	"log/slog"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// ToolName is the name of the tool. It is reserved while the tool is offered: a tool of an
// upstream with this name is withheld.
const ToolName = "load_skill"

// Config is the section "skills".
type Config struct {
	// LoadTool offers the tool load_skill, for hosts that know neither form of skills, to
	// every caller who may see a skill. Default false.
	LoadTool bool `yaml:"load_tool"`
}

// Middleware implements the tool, if it is offered, and passes everything else through.
func Middleware(cfg Config, log *slog.Logger) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		if !cfg.LoadTool {
			return next
		}
		s := &stage{next: next, log: log}
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			switch {
			case c.Method == mcp.MethodToolsList:
				return s.list(ctx, c)
			case c.Method == mcp.MethodToolsCall && c.Name == ToolName:
				return s.call(ctx, c)
			case c.Method == mcp.MethodDiscover:
				return s.discover(ctx, c)
			case c.Method == mcp.MethodListen:
				return s.listen(ctx, c)
			}
			return next.Handle(ctx, c)
		})
	}
}

type stage struct {
	next mcp.Handler
	log  *slog.Logger
}

// toolKey is the key of a page with the tool: the tool's definition; "" for a page without it.
type toolKey string

// list puts the tool first. It also works if no upstream has a list of tools.
func (s *stage) list(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	_, later := c.Params.Member("cursor")
	var tool toolKey
	var from *mcp.List
	switch {
	case err == nil && reply != nil && reply.List != nil:
		from = reply.List
	case later || !mcp.HasCode(err, mcp.CodeMethodNotFound):
		return reply, err
	}
	skills, private := listing{}, false
	if !later {
		var unknown error
		if skills, unknown = s.skills(ctx, c); unknown != nil {
			s.log.DebugContext(ctx, "it is not known what skills there are", slog.Any("error", unknown))
		}
		private = skills.private
	}
	switch {
	case len(skills.all) > 0:
		tool = toolKey(skills.tool())
	case from != nil:
	case skills.offered: // there may be some later, so the capability is declared
		return &mcp.Reply{List: &mcp.List{Items: []mcp.Item{}, Expires: skills.expires, Private: private}}, nil
	default:
		return reply, err
	}
	build := func(below *mcp.List) *mcp.List {
		list := below.With(nil)
		list.Private = private || below.Private
		if tool != "" {
			list.Items = append(list.Items, mcp.Item{Name: ToolName, Raw: mcp.Raw(tool)})
			if from == nil || skills.expires.Before(list.Expires) {
				list.Expires = skills.expires
			}
		}
		for _, item := range below.Items {
			if item.Name == ToolName {
				s.log.WarnContext(ctx, "tool withheld: its public name is one of the gateway's own", failure.ItemWithheld.Attr(),
					slog.String("upstream", item.Target.Upstream), slog.String("name", item.Name))
				continue
			}
			list.Items = append(list.Items, item)
		}
		return list
	}
	if from == nil {
		return &mcp.Reply{List: build(&mcp.List{})}, nil
	}
	return &mcp.Reply{List: from.Derive(tool, build)}, nil
}

// discover announces tools to callers who may see skills.
func (s *stage) discover(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	if err != nil || reply == nil {
		return reply, err
	}
	caps, _ := reply.Result.Member("capabilities")
	_, tools := caps.Member("tools")
	if _, skills := caps.Member("skills"); tools || !skills {
		return reply, nil
	}
	return &mcp.Reply{Result: reply.Result.With("capabilities", caps.With("tools", mcp.Raw(`{"listChanged":true}`))),
		Release: reply.Release}, nil
}

// listen reports changed tools when skills change, because the tool's description names
// them.
func (s *stage) listen(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	want, err := mcp.FilterOf(c.Params)
	if err != nil || want.Lists&mcp.ToolLists == 0 {
		return s.next.Handle(ctx, c)
	}
	asked := want.Lists & mcp.SkillLists
	want.Lists |= mcp.SkillLists
	inner := c.Clone()
	inner.Params = want.In(c.Params)
	inner.Notify = func(e mcp.Event) {
		switch e.Method {
		case mcp.NoteAcknowledged:
			if honoured, _ := mcp.FilterOf(e.Params); honoured.Lists&mcp.SkillLists != 0 {
				honoured.Lists = honoured.Lists&^mcp.SkillLists | mcp.ToolLists | asked
				e.Params = honoured.In(e.Params)
			}
		case mcp.NoteSkillsListChanged:
			c.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw("{}")})
			if asked == 0 {
				return
			}
		}
		c.Notify(e)
	}
	return s.next.Handle(ctx, inner)
}
