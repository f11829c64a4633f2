package gateway

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnosis"
	"github.com/gatehouse-mcp/gatehouse/gateway/servers"
	"github.com/gatehouse-mcp/gatehouse/internal/clienttls"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

const (
	// findingsHold is for how long findings are good: many may look at them at a time, and Redis is
	// asked for them.
	findingsHold = time.Second
	// findingsTime bounds how long facts are collected. What does not answer by then is away.
	findingsTime = 5 * time.Second
)

// lastFindings are those that were looked for last.
type lastFindings struct {
	turn chan struct{} // holds one while somebody looks; guards the fields below
	at   time.Time
	all  []admin.Finding
}

func newLastFindings() *lastFindings { return &lastFindings{turn: make(chan struct{}, 1)} }

// of returns what is not well. One looks for all who ask; when ctx ends, nobody waits any longer, and
// whoever waits behind a looker that has left looks anew.
func (l *lastFindings) of(ctx context.Context, facts func(context.Context) diagnosis.Facts) ([]admin.Finding, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if time.Since(l.at) < findingsHold {
		return l.all, nil
	}
	looking, cancel := context.WithTimeout(ctx, findingsTime)
	defer cancel()
	all := diagnosis.Of(facts(looking))
	if ctx.Err() != nil { // to whoever has left, everything looks as if it were away
		return nil, ctx.Err()
	}
	l.all, l.at = all, time.Now()
	return all, nil
}

// brokenOf returns what of a server no client can be shown.
func brokenOf(view catalog.UpstreamView, status upstream.Status) (all []diagnosis.Broken) {
	for i, w := range servers.Withheld(view, status) {
		what := w.List
		if i >= len(view.Withheld) { // the server's own
			what = strings.TrimSuffix(what, "s")
		}
		all = append(all, diagnosis.Broken{Upstream: view.Name, What: what, Name: w.Name, Reason: w.Reason})
	}
	return all
}

// certificatesOf returns the files of certificates of a configuration.
func certificatesOf(cfg config.Config) (all []diagnosis.Certificate) {
	add := func(section string, files clienttls.Files) {
		for _, end := range files.Ends() {
			all = append(all, diagnosis.Certificate{Section: section, End: end})
		}
	}
	redis, traces := cfg.Sessions.Redis, cfg.Tracing
	add("sessions.redis", clienttls.Files{CA: redis.CAFile, Cert: redis.CertFile})
	add("tracing", clienttls.Files{CA: traces.CAFile, Cert: traces.CertFile})
	for i, s := range cfg.Audit.Sinks {
		add(fmt.Sprintf("audit.sinks[%d]", i), clienttls.Files{CA: s.CAFile, Cert: s.CertFile})
	}
	for i, h := range cfg.Hooks {
		if h.HTTP != nil {
			add(fmt.Sprintf("hooks[%d].http", i), clienttls.Files{CA: h.HTTP.CAFile, Cert: h.HTTP.CertFile})
		}
	}
	return all
}
