package pinning

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// Bounds of a guard's memory.
const (
	maxJudged  = 20_000
	maxPending = 10_000  // things
	maxKept    = 4 << 20 // bytes of definitions that are not approved
)

// Server is a server behind a guard.
type Server interface {
	mcp.Handler
	// Name is the configured name.
	Name() string
}

// Finding is a definition that is not approved as it is now. Each is reported once.
type Finding struct {
	Upstream string
	Kind     pin.Kind
	Name     string // "" for instructions
	New      bool   // nothing of this name is approved
	// Differ are the members that are not as approved; none for a new thing.
	Differ []string
	// Hidden are texts in it that people cannot see; see pin.Hidden.
	Hidden []string
	// Blocked says that clients do not see it.
	Blocked bool
	// Definition is in canonical form.
	Definition mcp.Raw
}

// Guard is the approved part of a server. It may be used concurrently.
type Guard struct {
	server   Server
	block    bool
	approved *pin.Approved
	found    func(Finding)

	mu      sync.Mutex // guards the fields below
	judged  map[[sha256.Size]byte]bool
	pending map[thing]map[pin.Digest]Finding // by definition
	kept    int                              // bytes of the definitions in pending
}

type thing struct {
	kind pin.Kind
	name string
}

// New returns the approved part of a server. mode is Warn or Block. found takes definitions that
// are not approved; it must not block.
func New(server Server, mode string, approved *pin.Approved, found func(Finding)) *Guard {
	return &Guard{
		server: server, block: mode == Block, approved: approved, found: found,
		judged: make(map[[sha256.Size]byte]bool), pending: make(map[thing]map[pin.Digest]Finding),
	}
}

// Name returns the name of the server.
func (g *Guard) Name() string { return g.server.Name() }

// Pending returns the number of things that were seen and are not approved, at most 10000.
func (g *Guard) Pending() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pending)
}

// Found returns the definitions that were seen and are not approved, sorted. It may be incomplete:
// definitions of at most 4 MiB are kept.
func (g *Guard) Found() (all []Finding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, definitions := range g.pending {
		for _, f := range definitions {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), slices.Compare(a.Definition, b.Definition))
	})
	return all
}

// Handle passes a call on. In mode block, it removes definitions that are not approved from
// answers, and refuses calls of such things.
func (g *Guard) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if g.block && g.unknown(c) {
		return nil, mcp.Errorf(failure.NotApproved, "%s: the gateway's operator has not approved this", c.Name)
	}
	reply, err := g.server.Handle(ctx, c)
	if err != nil || reply == nil {
		return reply, err
	}
	if kind, ok := pin.KindOf(c.Method); ok && reply.List != nil {
		return g.list(kind, reply), nil
	}
	if c.Method == mcp.MethodDiscover {
		return g.instructions(reply), nil
	}
	return reply, nil
}

// unknown reports whether a call is of a thing that is not approved in any form. A thing approved
// in another form is not in the catalog's lists, and so is not called.
func (g *Guard) unknown(c *mcp.Call) bool {
	switch c.Method {
	case mcp.MethodToolsCall:
		return !g.approved.Has(pin.Tools, c.Name)
	case mcp.MethodPromptsGet:
		return !g.approved.Has(pin.Prompts, c.Name)
	case mcp.MethodSkillsGet:
		key, byURI := mcp.SkillKey(c.Params)
		if byURI {
			return !g.approved.HasSkillAt(key.Text())
		}
		return !g.approved.Has(pin.Skills, key.Text())
	}
	return false
}

func (g *Guard) list(kind pin.Kind, reply *mcp.Reply) *mcp.Reply {
	items := reply.List.Items
	shown := make([]mcp.Item, 0, len(items))
	for _, item := range items {
		if g.shows(kind, item.Name, item.Raw) {
			shown = append(shown, item)
		}
	}
	if len(shown) == len(items) {
		return reply
	}
	less := *reply
	less.List = reply.List.With(shown)
	return &less
}

func (g *Guard) instructions(reply *mcp.Reply) *mcp.Reply {
	text, ok := reply.Result.Member("instructions")
	if !ok || text.Text() == "" || g.shows(pin.Instructions, "", text) {
		return reply
	}
	less := *reply
	less.Result = reply.Result.Without("instructions")
	return &less
}

// shows judges a definition and reports whether clients see it. A definition that is not approved
// goes to found the first time.
func (g *Guard) shows(kind pin.Kind, name string, definition mcp.Raw) bool {
	key := sha256.Sum256(append([]byte(string(kind)+"\x00"+name+"\x00"), definition...))
	g.mu.Lock()
	approved, known := g.judged[key]
	waits := len(g.pending[thing{kind, name}]) > 0
	g.mu.Unlock()
	if known && approved != waits { // and noted as that
		return approved || !g.block
	}
	finding := Finding{Upstream: g.Name(), Kind: kind, Name: name, Blocked: g.block}
	if finding.Differ, finding.New, approved = g.approved.Check(kind, name, definition); !approved {
		finding.Hidden, finding.Definition = pin.Hidden(definition), pin.Canonical(definition)
	}
	if first := g.note(key, finding, approved); first && !approved {
		g.found(finding)
	}
	return approved || !g.block
}

// note remembers a judgement. first is true for the first one of this definition.
func (g *Guard) note(key [sha256.Size]byte, f Finding, approved bool) (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.judged[key]; !known {
		first = true
		if len(g.judged) >= maxJudged {
			clear(g.judged)
		}
		g.judged[key] = approved
	}
	what := thing{f.Kind, f.Name}
	if approved { // the server has taken back what it had changed
		for _, was := range g.pending[what] {
			g.kept -= len(was.Definition)
		}
		delete(g.pending, what)
		return first
	}
	if g.pending[what] == nil {
		if len(g.pending) >= maxPending {
			return first
		}
		g.pending[what] = make(map[pin.Digest]Finding)
	}
	digest := pin.DigestOf(f.Definition)
	if _, known := g.pending[what][digest]; !known && g.kept+len(f.Definition) <= maxKept {
		g.pending[what][digest] = f
		g.kept += len(f.Definition)
	}
	return first
}
