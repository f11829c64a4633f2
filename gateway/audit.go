package gateway

import (
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// openAudit opens the sinks of records, if there are any. What is recorded until the stores
// close is written.
func openAudit(g *Gateway, cfg config.Config, replica, version string, metrics *audit.Metrics) (err error) {
	deps := audit.Deps{Replica: replica, Version: version, Log: g.log, Metrics: metrics}
	if g.recent != nil {
		deps.Also = g.recent.Put
	}
	g.journal, err = audit.New(cfg.Audit, deps)
	if err != nil {
		return err
	}
	g.undo.OnStop("audit", g.journal.Close)
	return nil
}

// newRecorder makes what records calls.
func newRecorder(g *Gateway) *observe.Recorder {
	return &observe.Recorder{
		Journal: g.journal,
		RuleAt:  g.ruleAt,
		Keeps:   func(rule string) *record.Keep { return g.graph().rules.Keeps(rule) },
		Server: func(name string) (revision string, stateful bool) { // "" while it is not known
			if m := g.graph().member(name); m != nil && m.mcp != nil {
				return m.mcp.Era()
			}
			return "", false
		},
	}
}
