// Package skills finds a server's own skills, in whichever form it has them.
//
// It is one stage of the way to a server, directly above its dialect. It turns what the
// server says into records of the inner language (mcp/skill.go): entries of SEP-2640 get a
// key, entries of SEP-2076 a URI and a SKILL.md that is written here, and each resource that
// is a SKILL.md an entry. It leaves the format of SKILL.md to internal/skillmd, what is
// withheld to gateway/catalog and who may have a skill to policy. It starts no goroutines.
package skills

import (
	"context"
	"maps"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxPages bounds how many pages of a server's skills, or resources, are looked through.
	maxPages = 50
	// maxKnown bounds of how many skills it is remembered what they are.
	maxKnown = 2000
)

// Skills is what is known of a server's skills, to find its own names for them again. Its
// methods may be called concurrently.
type Skills struct {
	perUser bool

	mu      sync.Mutex // guards the fields below
	core    bool       // it speaks SEP-2076
	uris    bool       // it speaks SEP-2640
	known   map[string]skill
	skipped map[string]string
}

// skill is a skill by its key.
type skill struct {
	root     string  // the URI of its directory
	name     string  // its name in SEP-2076, "" for none
	made     bool    // it has a name alone, and the URI is ours
	plain    bool    // it is only a resource
	manifest bool    // of one that is only a resource: there is a list of its files
	record   mcp.Raw // of one whose URI is ours, if it is the same for all users; nil otherwise
}

// New returns the Skills of a server, which are told to each user on their own if perUser
// says so.
func New(perUser bool) *Skills { return &Skills{perUser: perUser, known: make(map[string]skill)} }

// Middleware answers skills/list, skills/get and resources/read of what is written here, and
// notes what server/discover says. All else passes.
func (s *Skills) Middleware(next mcp.Handler) mcp.Handler {
	st := stage{s, next}
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		switch c.Method {
		case mcp.MethodDiscover:
			return st.discover(ctx, c)
		case mcp.MethodSkillsList:
			return st.list(ctx, c)
		case mcp.MethodSkillsGet:
			return st.get(ctx, c)
		case mcp.MethodResourcesRead:
			return st.read(ctx, c)
		}
		return next.Handle(ctx, c)
	})
}

// Skipped are skills that are left out, by their URIs, and why.
func (s *Skills) Skipped() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.skipped)
}

func (s *Skills) skip(all map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped = all
}

func (s *Skills) forms() (core, uris bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core, s.uris
}

func (s *Skills) add(key string, k skill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[key] = k
}

func (s *Skills) find(key string) (skill, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.known[key]
	return k, ok
}

// stage is Skills where calls pass.
type stage struct {
	*Skills
	next mcp.Handler
}

// discover notes which forms a server speaks. Skills are read as resources, so one that has
// only skills is said to have resources.
func (s stage) discover(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	if err != nil {
		return nil, err
	}
	caps, _ := reply.Result.Member("capabilities")
	skills, core := caps.Member("skills")
	core = core && !skills.IsNull()
	uris := mcp.DeclaresSkills(caps)
	s.mu.Lock()
	s.core, s.uris = core, uris
	s.mu.Unlock()
	if _, has := caps.Member("resources"); !has && (core || uris) {
		return &mcp.Reply{Result: reply.Result.With("capabilities", caps.With("resources", mcp.Raw("{}")))}, nil
	}
	return reply, nil
}

// inner is a call of ours on behalf of another one.
func inner(c *mcp.Call, method, name string, params mcp.Raw) *mcp.Call {
	inner := c.Clone()
	inner.Method, inner.Name, inner.Params = method, name, params
	inner.Task, inner.State, inner.Answers, inner.Refused, inner.ParamHeaders = nil, "", nil, nil, nil
	return inner
}
