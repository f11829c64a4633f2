// Package skilldir is a directory of Agent Skills (SKILL.md bundles) as an upstream.
//
// It owns the walk through the directory, the links that it follows, and when it looks again.
// It leaves the format of SKILL.md to internal/skillmd, and who may have a skill to policy. It
// reads files and never runs them, and passes on their content as it is. Calls of
// subscriptions/listen look for changes. For a large directory they start a goroutine that
// takes the system's notices of changes; the last of these calls ends it.
package skilldir

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// fresh is how long a look at a directory counts while there are no listeners.
const fresh = 5 * time.Minute

// Dir is a directory of skills: an mcp.Handler for skills/list and skills/get, and for the
// files of the skills as resources. Its methods may be called concurrently.
type Dir struct {
	name string
	dir  string
	log  *slog.Logger

	scan  func(ctx context.Context, dir string, last *snapshot) (*snapshot, error) // readDir
	watch watch

	closing sync.Once
	closed  chan struct{}

	scanning sync.Mutex // held while the directory is read

	mu     sync.Mutex // guards the fields below; never held over I/O
	held   *snapshot  // an empty one before it was read
	status upstream.Status
}

// New makes a Dir of an upstream that has the key skills. It does no I/O.
func New(cfg upstream.Config, log *slog.Logger) (*Dir, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	if cfg.Skills == "" || log == nil {
		return nil, fmt.Errorf("upstream %q: no directory of skills or no log was given", cfg.Name)
	}
	return &Dir{
		name: cfg.Name, dir: cfg.Skills, log: log.With("upstream", cfg.Name), closed: make(chan struct{}),
		scan: readDir, held: new(snapshot), watch: watch{root: cfg.Skills, open: openDirWatch},
		status: upstream.Status{Name: cfg.Name, Transport: upstream.TransportSkills, State: upstream.StateConnecting,
			Since: time.Now()},
	}, nil
}

// Name returns the configured name.
func (d *Dir) Name() string { return d.name }

// Status returns its state, and what is left out of it.
func (d *Dir) Status() upstream.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status
	s.SkippedSkills = d.held.skipped // which does not change any more
	return s
}

// Check reads the directory, so that Status is about it, and returns the number of skills.
func (d *Dir) Check(ctx context.Context) (skills int, err error) {
	held, err := d.look(ctx, 0)
	if err != nil {
		return 0, err
	}
	return len(held.skills), nil
}

// Close ends the calls that listen.
func (d *Dir) Close(context.Context) error {
	d.closing.Do(func() { close(d.closed) })
	return nil
}

// PerUser reports that it is the same for all users.
func (d *Dir) PerUser() bool { return false }

// Idle reports that nothing runs that would have to be waited for.
func (d *Dir) Idle() bool { return true }

// RootsChanged does nothing.
func (d *Dir) RootsChanged(string) {}

// Handle makes a call. Errors are an *mcp.Error, or the context's.
func (d *Dir) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	var answer func(context.Context, *mcp.Call, *snapshot) (*mcp.Reply, error)
	age := time.Duration(0)
	switch c.Method {
	case mcp.MethodDiscover:
		answer = discover
	case mcp.MethodListen:
		answer, age = d.listen, fresh
	case mcp.MethodSkillsList:
		answer = listSkills
	case mcp.MethodSkillsGet:
		answer, age = getSkill, fresh
	case mcp.MethodResourcesList:
		answer = listFiles
	case mcp.MethodResourcesRead:
		answer, age = d.read, fresh
	case mcp.MethodResourceTemplatesList:
		return &mcp.Reply{List: &mcp.List{}}, nil
	default:
		return nil, mcp.ErrMethod(c.Method)
	}
	held, err := d.look(ctx, age)
	if err != nil {
		return nil, err
	}
	c.Reached()
	reply, err := answer(ctx, c, held)
	c.Verdict.Answered(c.Method, reply, err)
	return reply, err
}

// look returns what the directory holds, as of age ago at most.
func (d *Dir) look(ctx context.Context, age time.Duration) (*snapshot, error) {
	asked := time.Now()
	if held := d.last(); asked.Sub(held.began) < age {
		return held, nil
	}
	d.scanning.Lock()
	defer d.scanning.Unlock()
	last := d.last()
	if last.began.After(asked) { // while this call waited for its turn
		return last, nil
	}
	began := time.Now()
	held, err := d.scan(ctx, d.dir, last)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		why := readFailure(err)
		d.enter(upstream.StateDown)
		d.status.Last = upstream.Failure{At: time.Now(), Name: failure.UpstreamDown, Stage: upstream.StageCall,
			Error: "its directory cannot be read: " + why}
		return nil, mcp.UpstreamError(failure.UpstreamDown, d.name, mcp.ExecutedNo,
			"Upstream %s cannot be read: its directory: %s", d.name, why)
	}
	d.enter(upstream.StateReady)
	d.logSkipped(last, held)
	held.began, held.cost = began, time.Since(began)
	d.held = held
	return held, nil
}

// last returns what the last look found, nothing before the first one.
func (d *Dir) last() *snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// enter is called with mu held.
func (d *Dir) enter(state upstream.State) {
	if d.status.State != state {
		d.status.State, d.status.Since = state, time.Now()
	}
}

// logSkipped logs what is left out for a new reason.
func (d *Dir) logSkipped(last, next *snapshot) {
	const most = 20
	news := 0
	for name, why := range next.skipped {
		if last.skipped[name] == why {
			continue
		}
		if news++; news <= most {
			d.log.Warn("skill or file left out", failure.SkillSkipped.Attr(), "path", name, "reason", why)
		}
	}
	if news > most {
		d.log.Warn("more skills or files left out", failure.SkillSkipped.Attr(), "count", news-most)
	}
}
