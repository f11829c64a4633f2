// Package skills finds a server's own skills, in whichever form it has them.
//
// It is one stage of the pipeline to a server, directly above its dialect. It turns what the server
// says into records of the inner language (mcp/skill.go): entries of SEP-2640 get a key, entries of
// SEP-2076 a URI and a SKILL.md that is written here, and each resource that is a SKILL.md an
// entry. It leaves the format of SKILL.md to internal/skillmd, what is withheld to gateway/catalog
// and who may have a skill to policy. It starts no goroutines.
package skills

import (
	"context"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxPages bounds how many pages of a server's skills, or resources, are looked through.
	maxPages = 50
	// maxKnown bounds how many skills for all are remembered, and maxOwn how many of users, or that
	// sessions show otherwise. Forgotten ones are listed again when needed.
	maxKnown = 2000
	maxOwn   = 10_000
)

// Skills remembers a server's skills, to find its own names for them again. Its methods may be
// called concurrently.
type Skills struct {
	perUser bool
	core    atomic.Bool              // the server speaks SEP-2076
	uris    atomic.Bool              // the server speaks SEP-2640
	known   *lru.Cache[place, skill] // what all see, or what one user sees
	own     *lru.Cache[place, skill] // what clients' own sessions show otherwise
	skipped atomic.Pointer[map[string]string]
}

// place says who sees a skill under a key.
type place struct {
	owner string // a session; a user; "" for all
	key   string
}

// skill is a skill by its key.
type skill struct {
	root     string  // the URI of its directory
	name     string  // its name in SEP-2076, "" for none
	made     bool    // it has only a name, and the URI is ours
	plain    bool    // it is only a resource
	manifest bool    // it is only a resource, and there is a list of its files
	record   mcp.Raw // set if the URI is ours and the record is the same for all
	varies   bool    // the URI is ours, and a client's own session has shown another record
}

// is reports whether both stand for the same at the server.
func (k skill) is(other skill) bool {
	return k.root == other.root && k.name == other.name && k.made == other.made && k.plain == other.plain &&
		k.manifest == other.manifest
}

// New returns the Skills of a server. perUser says that each user may have others.
func New(perUser bool) *Skills {
	most := maxKnown
	if perUser {
		most = maxOwn
	}
	known, _ := lru.New[place, skill](most) // the only error is about the size
	own, _ := lru.New[place, skill](maxOwn)
	return &Skills{perUser: perUser, known: known, own: own}
}

// End forgets what a client's own session has shown. The session at the server has ended.
func (s *Skills) End(session string) {
	if s.own.Len() == 0 {
		return
	}
	for _, at := range s.own.Keys() {
		if at.owner == session {
			s.own.Remove(at)
		}
	}
}

// shared returns where a skill is remembered that is not the session's alone.
func (s *Skills) shared(c *mcp.Call, key string) place {
	if s.perUser {
		return place{c.Caller.User(), key}
	}
	return place{"", key}
}

// learn remembers a skill. What a client's own session shows is kept for that session, as far as
// it differs from what is shown otherwise.
func (s *Skills) learn(c *mcp.Call, key string, k skill) {
	shared, own := s.shared(c, key), place{c.Session, key}
	if c.Session == "" {
		s.known.Add(shared, k)
	} else if all, ok := s.known.Peek(shared); ok && all.is(k) {
		s.own.Remove(own)
	} else {
		s.own.Add(own, k)
	}
}

// find returns what is known of a skill as the caller of a call sees it. If another one has its
// key there, as the target of the call says, nothing is known.
func (s *Skills) find(c *mcp.Call, key string) (k skill, ok bool) {
	if k, ok = s.own.Get(place{c.Session, key}); !ok {
		k, ok = s.known.Get(s.shared(c, key))
	}
	if root, isSkill := mcp.SkillRoot(c.Target.File); isSkill && root != k.root {
		return skill{}, false
	}
	return k, ok
}

// Middleware answers skills/list, skills/get and resources/read of files that are written
// here, and notes what server/discover says. All else passes.
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

// Skipped returns why skills are left out, by their URIs. It is not to be changed.
func (s *Skills) Skipped() map[string]string {
	if skipped := s.skipped.Load(); skipped != nil {
		return *skipped
	}
	return nil
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
	caps := reply.Result.At("capabilities")
	core, uris := !caps.At("skills").IsNull(), mcp.DeclaresSkills(caps)
	whole := c.Caps == nil // the server may say less to those who declare less
	if whole || core {
		s.core.Store(core)
	}
	if whole || uris {
		s.uris.Store(uris)
	}
	if _, has := caps.Member("resources"); !has && (core || uris) {
		return &mcp.Reply{Result: reply.Result.With("capabilities", caps.With("resources", mcp.Raw("{}")))}, nil
	}
	return reply, nil
}

// inner makes a call of our own on behalf of another one.
func inner(c *mcp.Call, method, name string, params mcp.Raw) *mcp.Call {
	inner := c.Clone()
	inner.Method, inner.Name, inner.Params = method, name, params
	inner.Task, inner.Round, inner.Answers, inner.Refused, inner.ParamHeaders = nil, nil, nil, nil, nil
	return inner
}
