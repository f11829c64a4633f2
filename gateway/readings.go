package gateway

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// reading is a metric that is read when it is asked for. One whose name ends in _total
// only grows, until its upstream or issuer is replaced.
type reading struct {
	name, help string
	labels     []string
}

// reporter takes one value.
type reporter func(name string, value float64, labels ...string)

var (
	perUpstream = []string{"upstream"}
	perIssuer   = []string{"issuer"}

	upstreamStates = []upstream.State{upstream.StateConnecting, upstream.StateReady, upstream.StateDegraded, upstream.StateNeedsLogin, upstream.StateDown}
	issuerStates   = []string{auth.StateReady, auth.StateDegraded, auth.StateDown}

	// withheldFrom are the lists that items are withheld from, as catalog.Withheld has them.
	withheldFrom = []string{"tools", "prompts", "resources", "resource templates", "skills"}
)

// readings are all there are.
var readings = []reading{
	{"gatehouse_upstream_state", "1 for the state that an upstream is in, 0 for the others: connecting, ready, degraded, needs-login, down.", []string{"upstream", "state"}},
	{"gatehouse_upstream_breaker_open", "1 while calls are refused without asking the upstream, for those before could not reach it, else 0.", perUpstream},
	{"gatehouse_upstream_sessions_open", "Sessions (of a local program: processes) that are open at an upstream.", perUpstream},
	{"gatehouse_upstream_calls_in_flight", "Calls that an upstream works at, those that wait for their users included.", perUpstream},
	{"gatehouse_upstream_calls_parked", "Calls to an upstream that wait for an answer of their user.", perUpstream},
	{"gatehouse_upstream_calls_queued", "Calls that wait, for as many as upstreams[].limits.concurrent run.", perUpstream},
	{"gatehouse_upstream_users_refused", "Users whose own credential an upstream refused last.", perUpstream},
	{"gatehouse_upstream_restarts_total", "Processes and event streams of an upstream that ended by themselves.", perUpstream},
	{"gatehouse_upstream_garbage_total", "What an upstream sent that was no message.", perUpstream},
	{"gatehouse_upstream_items", "Items of an upstream that clients can be shown, by list.", []string{"upstream", "list"}},
	{"gatehouse_upstream_items_withheld", "Items of an upstream that no client is shown, by list; the log says which and why.", []string{"upstream", "list"}},
	{"gatehouse_upstream_tools_dropped", "Tools of an upstream that cannot be offered, for their definitions are broken.", perUpstream},
	{"gatehouse_skills_broken", "Skills of an upstream, and files of skills, that are left out, for they are broken; the log and gatehouse check say which and why.", perUpstream},

	{"gatehouse_sessions_open", "Sessions of clients that this process knows.", nil},
	{"gatehouse_session_streams_open", "Open GET streams of sessions.", nil},
	{"gatehouse_session_calls_in_flight", "Calls of sessions under way, those that wait for their users included.", nil},
	{"gatehouse_questions_open", "Questions to users of sessions that have no answer yet.", nil},

	{"gatehouse_auth_issuer_state", "1 for the state that an issuer of tokens is in, 0 for the others: ready, degraded, down (its tokens are answered with 503).", []string{"issuer", "state"}},
	{"gatehouse_auth_keys", "Keys of an issuer that can verify tokens.", perIssuer},
	{"gatehouse_auth_key_fetches_total", "Fetches of the keys of an issuer.", perIssuer},
	{"gatehouse_auth_key_fetch_failures_total", "Fetches of the keys of an issuer that failed.", perIssuer},
	{"gatehouse_auth_key_last_fetch_timestamp_seconds", "When the keys of an issuer were last fetched with success, in seconds since 1970; 0 for never.", perIssuer},
	{"gatehouse_auth_unknown_keys_total", "Tokens that named a key which their issuer does not have.", perIssuer},

	{"gatehouse_config_last_reload_successful", "1 if the configuration file was good when it was read last, 0 if it was refused and the one before holds.", nil},
	{"gatehouse_config_last_reload_success_timestamp_seconds", "When the configuration that holds was read, in seconds since 1970.", nil},
	{"gatehouse_config_info", "Always 1: the first 12 digits of the SHA-256 of the configuration file that holds (sha256sum tells the same); empty without a file.", []string{"revision"}},
	{"gatehouse_draining", "1 once the gateway is stopping and takes no new sessions, else 0.", nil},
}

// readings reads them.
func (g *Gateway) readings(say reporter) {
	now := g.graph()
	now.readUpstreams(say)
	now.readIssuers(say)

	load := g.front.Load()
	say("gatehouse_sessions_open", float64(g.services.known()))
	say("gatehouse_session_streams_open", float64(load.Streams))
	say("gatehouse_session_calls_in_flight", float64(load.Calls))
	say("gatehouse_questions_open", float64(load.Questions))

	status := g.ReloadStatus()
	say("gatehouse_config_last_reload_successful", truth(status.Err == nil))
	say("gatehouse_config_last_reload_success_timestamp_seconds", unixSeconds(status.Loaded))
	say("gatehouse_config_info", 1, status.Revision)
	say("gatehouse_draining", truth(g.draining.Load()))
}

func (g *graph) readUpstreams(say reporter) {
	views := g.catalog.Status()
	for i, view := range views { // in the order of the upstreams
		name, status := view.Name, g.members[i].Status()
		health := healthOf(view, status)
		for _, state := range upstreamStates {
			say("gatehouse_upstream_state", truth(health.State == state), name, string(state))
		}
		say("gatehouse_upstream_breaker_open", truth(health.RefusedUntil != nil), name)
		say("gatehouse_upstream_sessions_open", float64(status.Sessions), name)
		say("gatehouse_upstream_calls_in_flight", float64(status.Calls), name)
		say("gatehouse_upstream_calls_parked", float64(status.Parked), name)
		say("gatehouse_upstream_calls_queued", float64(status.Queued), name)
		say("gatehouse_upstream_users_refused", float64(status.UsersNeedLogin), name)
		say("gatehouse_upstream_restarts_total", float64(status.Restarts), name)
		say("gatehouse_upstream_garbage_total", float64(status.Garbage), name)
		say("gatehouse_upstream_tools_dropped", float64(len(status.DroppedTools)), name)
		say("gatehouse_skills_broken", float64(len(status.SkippedSkills)), name)
		withheld := make(map[string]int)
		for _, w := range view.Withheld {
			withheld[w.List]++
		}
		for i, count := range []int{view.Tools, view.Prompts, view.Resources, view.ResourceTemplates, view.Skills} {
			say("gatehouse_upstream_items", float64(count), name, withheldFrom[i])
			say("gatehouse_upstream_items_withheld", float64(withheld[withheldFrom[i]]), name, withheldFrom[i])
		}
	}
}

func (g *graph) readIssuers(say reporter) {
	for _, s := range g.auth.Status() {
		for _, state := range issuerStates {
			say("gatehouse_auth_issuer_state", truth(s.State == state), s.Issuer, state)
		}
		say("gatehouse_auth_keys", float64(s.Keys), s.Issuer)
		say("gatehouse_auth_key_fetches_total", float64(s.Fetches), s.Issuer)
		say("gatehouse_auth_key_fetch_failures_total", float64(s.Failures), s.Issuer)
		say("gatehouse_auth_key_last_fetch_timestamp_seconds", unixSeconds(s.Fetched), s.Issuer)
		say("gatehouse_auth_unknown_keys_total", float64(s.UnknownKeys), s.Issuer)
	}
}

// truth is 1 for true, 0 for false.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// unixSeconds is a time for Prometheus; 0 for none.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
