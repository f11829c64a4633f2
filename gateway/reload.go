package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/gateway/lifecycle"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

const (
	// handOver bounds how long a reload waits for the watches of the former configuration.
	handOver = 5 * time.Second
	// retiring bounds the time a retired upstream is kept for its last calls. Their own time limits
	// are mostly shorter.
	retiring = time.Hour
	// lookIdle is the interval at which a retired upstream is asked whether it is idle.
	lookIdle = 250 * time.Millisecond
	// lookAtFile is the interval at which the configuration file is read. The contents of the file
	// and of the files it refers to are compared. That takes microseconds, and works on every file
	// system, however a file is replaced (by an editor, or by the swapped links of a Kubernetes
	// ConfigMap). Beyond the first megabyte, description files are compared by size and time.
	lookAtFile = 2 * time.Second
)

// ErrNotRunning is the error of Reload for a gateway that has not begun to serve, or has
// stopped.
var ErrNotRunning = operate.ErrNotRunning

// ReloadStatus returns the result of the last reload.
func (g *Gateway) ReloadStatus() operate.ConfigStatus { return *g.reloaded.Load() }

// Reload reads the configuration file again and applies all changes or, on an error, none. The
// error of a bad file is a *config.Error. Unchanged parts continue as they were, and calls end
// where they began. The log has the changes.
func (g *Gateway) Reload() error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	defer supervisor{g.log}.reloading()()
	if err := g.canReload(); err != nil {
		return err
	}
	g.certificates.look(g.log, true)
	before := g.graph().cfg
	l, err := g.file.Load(&before)
	if err == nil {
		g.current.places.Store(&l.Places) // of rules with the same names, if the rest fails
		err = g.reload(l, func() error { return nil })
	}
	g.noteReload(l, before, err)
	if err != nil {
		g.logRefused(err)
	}
	return err
}

// noteReload records the result of reading a text of the configuration.
func (g *Gateway) noteReload(l config.Loaded, before config.Config, err error) {
	status := g.ReloadStatus()
	status.Tried, status.Err = time.Now(), err
	if err == nil {
		status.Loaded, status.Revision, status.Pending, status.Warnings = status.Tried, l.Revision, l.Pending, l.Doubts
		status.Refused = l.Refused
	}
	g.reloaded.Store(&status)
	configurationOf(g).NoteRead(l, config.ChangedSections(before, g.graph().cfg), err)
	g.metrics.Reload(err)
}

func (g *Gateway) canReload() error {
	if g.file == nil {
		return admin.ErrNoFile
	}
	if !g.running {
		return ErrNotRunning
	}
	return nil
}

// Save applies a text like Reload, and writes it into the file, which must still have a revision.
// On an error it does neither.
func (g *Gateway) Save(text []byte, revision string) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if err := g.canReload(); err != nil {
		return err
	}
	before := g.graph().cfg
	l, err := g.file.LoadText(text, &before)
	if err != nil {
		return err
	}
	err = g.reload(l, func() error {
		err := configtext.Replace(g.file.Path, text, func() error { return g.file.Still(revision) })
		if err == nil {
			g.current.places.Store(&l.Places)
		}
		return err
	})
	if err != nil {
		return err
	}
	g.file.Saved(l)
	g.noteReload(l, before, nil)
	return nil
}

// logRefused writes a line for each problem.
func (g *Gateway) logRefused(err error) {
	g.events.Reloaded(record.Record{Event: "refused", Reason: "nothing was changed: the log has the problems"})
	bad, ok := errors.AsType[*config.Error](err)
	if !ok {
		g.log.Error("configuration not reloaded: nothing was changed", failure.ConfigInvalid.Attr(), "error", err)
		return
	}
	g.log.Error("configuration not reloaded: nothing was changed", failure.ConfigInvalid.Attr(), "problems",
		len(bad.Problems))
	for _, p := range bad.Problems {
		g.log.Error("configuration", failure.ConfigInvalid.Attr(), "problem", p.String())
	}
}

// reload applies a configuration. It is called with reloading held. keep is called when nothing else
// can fail; its error means that nothing is applied.
func (g *Gateway) reload(l config.Loaded, keep func() error) (err error) {
	before := g.graph()
	defer func() {
		if err == nil {
			g.file.Applied(l)
		}
	}()
	for _, w := range l.Warnings {
		g.log.Warn("configuration", failure.ConfigDoubtful.Attr(), "warning", w.String())
	}
	cfg := l.Config.WithDefaults()
	// these files may have changed
	if reflect.DeepEqual(cfg, before.cfg) && cfg.Disclosure.Descriptions == "" && !config.Pins(cfg) {
		if err := keep(); err != nil {
			return err
		}
		g.log.Info("configuration reloaded", "changed", "nothing", "revision", l.Revision)
		return nil
	}
	changeSinks, err := g.journal.Plan(cfg.Audit)
	if err != nil {
		return err
	}
	changeTraces, err := g.tracer.Plan(cfg.Tracing)
	if err != nil {
		return err
	}
	next, err := newGraph(cfg, g.shared, before)
	if err != nil {
		return err
	}
	if err := keep(); err != nil {
		next.drop(before)
		return err
	}
	// for the sinks that it may end
	g.events.Reloaded(record.Record{Event: "applied", Revised: l.Revision,
		Changed: config.ChangedSections(before.cfg, cfg)})
	changeSinks()
	changeTraces()
	if g.redis != nil {
		g.redis.SetUser(cfg.Sessions.Redis)
	}
	g.replace(before, next)
	g.cluster.Revised(l.Revision)
	g.recent.Keep(trail.Mode(next.cfg.Admin.API.Messages), next.cfg.Admin.API.RecentBytes)
	g.logLevel.Set(next.cfg.Telemetry.Log.Level)
	if g.fitMemory && before.cfg.Memory() != cfg.Memory() { // programs came, or went
		applyMemory(g.log, cfg)
	}
	g.log.Info("configuration reloaded", append(changes(before.cfg, next.cfg), slog.String("revision", l.Revision))...)
	return nil
}

// rebuild makes the graph again from the configuration in force, with the lock file as it is now.
// The upstream with a name is made again, too: as after a reload that changes it, calls end where
// they began, and new ones have new connections and sessions.
func (g *Gateway) rebuild(ctx context.Context, name, by string) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if !g.running {
		return ErrNotRunning
	}
	before := g.graph()
	m := before.member(name)
	if m != nil {
		m.renewed = true
		defer func() { m.renewed = false }()
	}
	next, err := newGraph(before.cfg, g.shared, before)
	if err != nil {
		return err
	}
	if m != nil {
		m.mcp.Disown(ctx)
		renewed := next.member(name)
		g.servers.Of(name).Begin(renewed.reports, renewed.Status(), by, "reconnected")
	}
	g.replace(before, next)
	return nil
}

// watchFile reloads whenever the file has changed. It ends with ctx.
func (g *Gateway) watchFile(ctx context.Context) error {
	ticker := time.NewTicker(g.lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if g.file.Changed() && errors.Is(g.Reload(), ErrNotRunning) {
			return nil
		}
	}
}

// replace replaces a graph with another one. No step of it can fail.
func (g *Gateway) replace(before, next *graph) {
	g.current.now.Store(next)
	g.remember(next)
	ctx, cancel := context.WithTimeout(context.Background(), handOver)
	defer cancel()
	stopAuth := g.stopAuth
	if next.auth != before.auth {
		g.stopAuth = lifecycle.Run(next.auth.Run)
	} else {
		next.auth.SetKeys(next.cfg.Auth.Keys)
	}
	if views := config.ViewURLs(next.cfg); !maps.Equal(config.ViewURLs(before.cfg), views) {
		next.auth.SetViews(views)
		if next.server != nil {
			next.server.SetViews(views)
		}
	}
	g.setRoutes(next)
	asking, enough := context.WithTimeout(ctx, handOver/2)
	g.lasting.Ask(asking) // before the new rules let callers pass who are not valid any more
	enough()
	g.current.calls.Set(&next.pipe)
	before.guard.Stop() // the calls that wait come back, and the new rules decide
	// Each upstream has one watch: the new one fetches everything that the old one might miss.
	if err := before.stop(ctx); err != nil {
		g.log.Warn("watches of the configuration before still end", failure.ReloadLeftovers.Attr(), "error", err)
	}
	next.watch(g.spoofs)
	if next.auth != before.auth {
		if err := stopAuth(ctx); err != nil {
			g.log.Warn("authentication of the configuration before still ends", failure.ReloadLeftovers.Attr(), "error", err)
		}
	}
	for _, m := range before.members {
		if !next.has(m) {
			g.current.endUnused(m, g.log)
		}
		if next.member(m.Name()) == nil {
			g.metrics.Forget(m.Name())
		}
	}
	for _, v := range before.cfg.Views {
		if _, err := config.ViewNamed(next.cfg, v.Name); err != nil {
			g.metrics.Calls.ForgetView(v.Name)
		}
	}
	g.metrics.Policy.KeepLimits(before.cfg.Limits, next.cfg.Limits)
	g.metrics.Hooks.Keep(before.cfg.Hooks, next.cfg.Hooks)
}

// changes returns the attributes of the log line about a reload.
func changes(before, next config.Config) []any {
	added, replaced, removed := config.ChangedServers(before, next)
	attrs := []any{slog.String("changed", strings.Join(config.ChangedSections(before, next), ","))}
	for _, some := range []struct {
		key   string
		names []string
	}{{"added", added}, {"replaced", replaced}, {"removed", removed}} {
		if len(some.names) > 0 {
			attrs = append(attrs, slog.String(some.key, strings.Join(some.names, ",")))
		}
	}
	return attrs
}
