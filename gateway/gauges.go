package gateway

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

var (
	upstreamStates = []upstream.State{upstream.StateConnecting, upstream.StateReady, upstream.StateDegraded,
		upstream.StateNeedsLogin, upstream.StateDown, upstream.StateDisabled,
		upstream.StatePerUser}
	issuerStates = []string{auth.StateReady, auth.StateDegraded, auth.StateDown}

	// listNames are the lists of an upstream, as catalog.Withheld names them.
	listNames = []string{"tools", "prompts", "resources", "resource templates", "skills"}
)

// gauges writes the metrics that are read at each scrape, so that calls do not pay for them. A metric with
// a name in _total only grows until its upstream or issuer is replaced.
func (g operated) gauges(write sample) {
	now := g.graph()
	write.upstreams(now)
	for _, guard := range now.guards {
		write("gatehouse_upstream_items_not_approved",
			"Items of a pinned upstream, and its instructions, that were seen and are not in the lock file as they are now; the log says which.",
			float64(guard.Pending()), "upstream", guard.Name())
	}
	write.accounts(g.vault.Counts())
	write.issuers(now.auth.Status())
	load := g.front.Sessions.Load()
	write("gatehouse_sessions_open", "Sessions of clients that this process knows.", float64(g.homes().Len()))
	write("gatehouse_session_streams_open", "Open GET streams of sessions.", float64(load.Streams))
	write("gatehouse_session_calls_in_flight", "Calls of sessions under way, including those that wait for their users.",
		float64(load.Calls))
	write("gatehouse_questions_open", "Questions to users of sessions that have no answer yet.", float64(load.Questions))
	for version, count := range (diagnose.Serving{Version: g.version, Replicas: g.replicas()}).Versions() {
		write("gatehouse_replicas", "Replicas that share a Redis, with this one, by the version of their program; unknown for releases that do not announce theirs.",
			float64(count), "version", version)
	}
	write.configuration(g.ReloadStatus())
	write.certificates(g.certificates)
	write("gatehouse_draining", "1 once the gateway is stopping and takes no new sessions, else 0.",
		truth(g.draining.Load()))
}

func (write sample) upstreams(now *graph) {
	for i, view := range now.catalog.Status() { // in the order of the members
		name, status := view.Name, now.members[i].Status()
		shown := diagnose.UpstreamOf(view, status)
		for _, state := range upstreamStates {
			write("gatehouse_upstream_state",
				"1 for the state that an upstream is in, 0 for the others: connecting, ready, degraded, needs-login, down, disabled, per user.", truth(shown.State == state), "upstream", name, "state", string(state))
		}
		write("gatehouse_upstream_breaker_open",
			"1 while calls are refused without asking the upstream, because earlier ones could not reach it, else 0.",
			truth(!shown.RefusedUntil.IsZero()), "upstream", name)
		write("gatehouse_upstream_sessions_open", "Sessions (of a local program: processes) that are open at an upstream.",
			float64(status.Sessions), "upstream", name)
		write("gatehouse_upstream_calls_in_flight",
			"Calls that an upstream works on, including those that wait for their users.", float64(status.Calls),
			"upstream", name)
		write("gatehouse_upstream_calls_parked", "Calls to an upstream that wait for an answer of their user.",
			float64(status.Parked), "upstream", name)
		write("gatehouse_upstream_calls_queued", "Calls that wait because as many as upstreams[].limits.concurrent run.",
			float64(status.Queued), "upstream", name)
		write("gatehouse_upstream_users_refused", "Users whose own credential an upstream refused last.",
			float64(status.UsersNeedLogin), "upstream", name)
		write("gatehouse_upstream_restarts_total", "Processes and event streams of an upstream that ended by themselves.",
			float64(status.Restarts), "upstream", name)
		write("gatehouse_upstream_garbage_total", "What an upstream sent that was no message.", float64(status.Garbage),
			"upstream", name)
		write("gatehouse_upstream_tools_dropped",
			"Tools of an upstream that cannot be offered because their definitions are broken.",
			float64(len(status.DroppedTools)), "upstream", name)
		write("gatehouse_skills_broken",
			"Skills of an upstream, and files of skills, that are left out because they are broken; the log and gatehouse check say which and why.", float64(len(status.SkippedSkills)), "upstream", name)
		withheld := make(map[string]int)
		for _, w := range view.Withheld {
			withheld[w.List] += max(w.Behind, 1)
		}
		for i, count := range []int{view.Tools, view.Prompts, view.Resources, view.ResourceTemplates, view.Skills} {
			write("gatehouse_upstream_items", "Items of an upstream that clients can be shown, by list.", float64(count),
				"upstream", name, "list", listNames[i])
			write("gatehouse_upstream_items_withheld",
				"Items of an upstream that no client is shown, by list; the log says which and why.",
				float64(withheld[listNames[i]]), "upstream", name, "list", listNames[i])
		}
	}
}

func (write sample) accounts(counts map[string]map[string]int) {
	for server, states := range counts {
		for _, state := range vault.AllStates() {
			write("gatehouse_accounts",
				"Users' own accounts at an upstream that this replica has used or shown lately, by state: ok, needs_sign_in, expired, revoked, error.", float64(states[state]), "upstream", server, "state", state)
		}
	}
}

func (write sample) issuers(all []auth.Status) {
	for _, s := range all {
		for _, state := range issuerStates {
			write("gatehouse_auth_issuer_state",
				"1 for the state that an issuer of tokens is in, 0 for the others: ready, degraded, down (its tokens are answered with 503).", truth(s.State == state), "issuer", s.Issuer, "state", state)
		}
		write("gatehouse_auth_keys", "Keys of an issuer that can verify tokens.", float64(s.Keys), "issuer", s.Issuer)
		write("gatehouse_auth_key_fetches_total", "Fetches of the keys of an issuer.", float64(s.Fetches), "issuer", s.Issuer)
		write("gatehouse_auth_key_fetch_failures_total", "Fetches of the keys of an issuer that failed.", float64(s.Failures),
			"issuer", s.Issuer)
		write("gatehouse_auth_key_last_fetch_timestamp_seconds",
			"When the keys of an issuer were last fetched with success, in seconds since 1970; 0 for never.",
			unixSeconds(s.Fetched), "issuer", s.Issuer)
		write("gatehouse_auth_unknown_keys_total", "Tokens that named a key which their issuer does not have.",
			float64(s.UnknownKeys), "issuer", s.Issuer)
	}
}

func (write sample) configuration(status operate.ConfigStatus) {
	write("gatehouse_config_last_reload_successful",
		"1 if the configuration file was good when it was read last, 0 if it was refused and the one before holds.",
		truth(status.Err == nil))
	write("gatehouse_config_pending_restart", "Keys of the configuration file that hold only after a restart.",
		float64(len(status.Pending)))
	write("gatehouse_config_teams_refused", "Teams with mistakes in their files, which have what they had before.",
		float64(len(status.Refused)))
	write("gatehouse_config_last_reload_success_timestamp_seconds",
		"When the configuration that holds was read, in seconds since 1970.", unixSeconds(status.Loaded))
	write("gatehouse_config_info",
		"Always 1: the first 12 digits of the SHA-256 of the configuration file that holds (sha256sum tells the same); empty without a file.", 1, "revision", status.Revision)
}

// truth returns 1 for true and 0 for false.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// unixSeconds returns a time as Prometheus writes it; 0 for none.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
