package diagnose

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

const (
	// soon is the time before its end in which a certificate is a finding.
	soon = 21 * 24 * time.Hour
	// lossKnown is the time for which lost records are a finding.
	lossKnown = time.Hour
)

// stopping returns a finding if the gateway is about to stop.
func stopping(f Facts) []admin.Finding {
	if !f.Stopping {
		return nil
	}
	return []admin.Finding{{
		Severity: admin.Notice, Kind: "stopping", Look: "/api/v1/sessions",
		What: "This replica is stopping.", Cause: "It was told to stop: it lets calls end, and takes no new sessions.",
		Next: "Nothing, if you meant it to stop: clients go to another replica.",
	}}
}

// store returns a finding if Redis cannot be used.
func store(f Facts) []admin.Finding {
	if f.Store == "" {
		return nil
	}
	return []admin.Finding{{
		Severity: admin.Critical, Kind: "redis", Code: failure.StoreDown.String(), Look: "/readyz",
		What: "Redis cannot be used: no new sessions begin, on no replica.", Cause: sentence(f.Store),
		Next: "Start Redis or give it more memory; if it runs, correct url, username and password of sessions.redis.",
	}}
}

// issuers finds issuers with keys that cannot be fetched.
func issuers(f Facts) (all []admin.Finding) {
	for _, i := range f.Issuers {
		if i.Pending() {
			continue
		}
		found := admin.Finding{
			Kind: "issuer", Subject: i.Issuer, Cause: sentence(i.Reason), Look: "/readyz",
			Next: "Make the issuer reachable from this machine, or correct its url in auth.issuers.",
		}
		switch i.State {
		case auth.StateDown:
			found.Severity, found.Code = admin.Critical, failure.IssuerDown.String()
			found.What = fmt.Sprintf("Nobody can sign in with tokens of %s.", i.Issuer)
		case auth.StateDegraded:
			found.Severity = admin.Warning
			found.What = fmt.Sprintf("The issuer %s does not answer. Tokens are checked with what is known of it.", i.Issuer)
		default:
			continue
		}
		all = append(all, found)
	}
	return all
}

// sinks finds sinks of the audit that fail or have lost records.
func sinks(f Facts) (all []admin.Finding) {
	for _, s := range f.Sinks {
		found := admin.Finding{Kind: "audit", Subject: s.Name, Look: "/metrics"}
		lost := ""
		if s.Lost > 0 && f.Now.Sub(s.LastLost) < lossKnown {
			lost = fmt.Sprintf("It has lost %s; each gap has a record of its own.", count(s.Lost, "record", "records"))
		}
		switch {
		case !s.Failing.IsZero() || s.Holds:
			found.Severity, found.Since, found.Code = admin.Warning, since(s.Failing), failure.AuditSinkDown.String()
			found.What = fmt.Sprintf("The audit cannot write to %s. %s.", s.Name,
				count(int64(s.Queued), "record waits", "records wait"))
			if s.Holds {
				found.Severity = admin.Critical
				found.What = fmt.Sprintf("Calls wait, because the audit cannot write to %s.", s.Name)
			}
			found.Cause = strings.TrimSpace(sentence(cmp.Or(s.Error, "it takes records too slowly")) + " " + lost)
			found.Next = "Make room at the sink, or make it reachable: what waits is written then. It goes to " +
				orOutput(s.Where) + "."
		case lost != "":
			found.Severity, found.Since = admin.Warning, since(s.LastLost)
			found.What, found.Cause = fmt.Sprintf("Records are missing in the audit at %s.", s.Name), lost
			found.Next = "Raise audit.queue, or set audit.on_full: block if none may be lost."
		default:
			continue
		}
		all = append(all, found)
	}
	return all
}

func orOutput(where string) string {
	if where == "" {
		return "standard output"
	}
	return where
}

// refusedReload returns a finding if the present configuration file is not in use.
func refusedReload(f Facts) []admin.Finding {
	problems := f.State.Problems
	if len(problems) == 0 {
		return nil
	}
	first := problems[0]
	found := admin.Finding{
		Severity: admin.Warning, Kind: "reload", Subject: first.File, Since: since(f.State.Tried),
		Code: failure.ConfigInvalid.String(), Look: "/api/v1/config",
		What: "The configuration file was refused. The one before holds.", Cause: sentence(first.Message),
		Next: "Correct the file: it is read again by itself.",
	}
	if first.Line > 0 {
		found.Cause = fmt.Sprintf("Line %d, column %d: %s", first.Line, first.Column, found.Cause)
		found.Next = fmt.Sprintf("Correct line %d of %s: the file is read again by itself.", first.Line, first.File)
		found.Excerpt = strictyaml.Excerpt(f.Line, first.Column)
	}
	if more := len(problems) - 1; more > 0 {
		found.Cause += fmt.Sprintf(" There %s more.", count(int64(more), "is one", "are %d"))
	}
	return []admin.Finding{found}
}

// pendingRestart finds keys of the configuration that need a restart.
func pendingRestart(f Facts) []admin.Finding {
	if len(f.State.Pending) == 0 {
		return nil
	}
	var keys []string
	for _, p := range f.State.Pending {
		key, _, _ := strings.Cut(p.Message, ":")
		keys = append(keys, key)
	}
	return []admin.Finding{{
		Severity: admin.Warning, Kind: "restart", Subject: f.State.Pending[0].File, Since: since(f.State.Loaded),
		Look:  "/api/v1/config",
		What:  fmt.Sprintf("Changes of the configuration wait for a restart: %s.", strings.Join(keys, ", ")),
		Cause: "Only a restart can change these keys. The rest of the file holds.",
		Next:  "Restart this replica, or take the changes back.",
	}}
}

// doubts finds probable mistakes in the configuration.
func doubts(f Facts) (all []admin.Finding) {
	for _, p := range f.State.Warnings {
		found := admin.Finding{
			Severity: admin.Warning, Kind: "doubt", Subject: p.File, Code: failure.ConfigDoubtful.String(),
			Look: "/api/v1/config",
			What: "The configuration says what is probably not meant.", Cause: sentence(p.Message),
			Next: "Correct it; \"gatehouse check\" says when it is well.",
		}
		if p.Line > 0 {
			found.Next = fmt.Sprintf("Correct line %d of %s; \"gatehouse check\" says when it is well.", p.Line, p.File)
		}
		all = append(all, found)
	}
	return all
}

// hookOutages finds hooks with services that give no valid answers.
func hookOutages(f Facts) (all []admin.Finding) {
	for _, o := range f.Hooks {
		found := admin.Finding{
			Severity: admin.Critical, Kind: "hook", Subject: o.Hook, Since: since(o.Since), Code: failure.HookDown.String(),
			Look: "/metrics",
			What: fmt.Sprintf("The hook %s fails: every call that it looks at is refused.", o.Hook), Cause: sentence(o.Why),
			Next: "Start its service, or correct its url. Nothing passes without it, unless on_failure says so.",
		}
		if !o.Refuses {
			found.Severity = admin.Warning
			found.What = fmt.Sprintf("The hook %s fails: calls pass without it.", o.Hook)
			found.Next = "Start its service, or correct its url."
		}
		all = append(all, found)
	}
	return all
}

// certificates finds certificates that have ended, or end soon.
func certificates(f Facts) (all []admin.Finding) {
	for _, c := range f.Certificates {
		found := admin.Finding{
			Severity: admin.Critical, Kind: "certificate", Subject: c.File, Look: "/api/v1/config",
			Next: fmt.Sprintf("Put a new certificate into %s.", c.File),
		}
		key := c.Section + "." + c.Key
		left := c.At.Sub(f.Now)
		switch {
		case c.Problem != "" && !c.At.IsZero():
			found.What = fmt.Sprintf("The new certificate of %s is not used.", key)
			found.Cause = sentence(c.Problem) + fmt.Sprintf(" The one before is good until %s.",
				c.At.UTC().Format(time.DateTime))
			found.Next = fmt.Sprintf("Correct %s, or the file.", key)
		case c.Problem != "":
			found.What, found.Cause = fmt.Sprintf("The certificate of %s cannot be read.", key), sentence(c.Problem)
			found.Next = fmt.Sprintf("Correct %s, or the file.", key)
		case left <= 0:
			found.What, found.Cause = fmt.Sprintf("The certificate of %s has ended.", key),
				fmt.Sprintf("It was good until %s.", c.At.UTC().Format(time.DateTime))
			found.Since = since(c.At)
		case left < soon && c.Key != tlsfiles.ByACME: // which may be that short
			found.Severity = admin.Warning
			days := int64(left / (24 * time.Hour))
			found.What = fmt.Sprintf("The certificate of %s ends in %s.", key, count(days, "day", "days"))
			if days == 0 {
				found.What = fmt.Sprintf("The certificate of %s ends within a day.", key)
			}
			found.Cause = fmt.Sprintf("It is good until %s.", c.At.UTC().Format(time.DateTime))
		default:
			continue
		}
		switch {
		case c.Key == tlsfiles.ByACME:
			found.What = fmt.Sprintf("No certificate is issued for %s.", c.Section)
			found.Code = failure.CertificateNotIssued.String()
			found.Next = fmt.Sprintf("Let the authority find %s here: the gateway orders it again by itself.", c.File)
		case c.Key == "client_ca_file", c.Key == "ca_file" && strings.HasSuffix(c.Section, ".tls"): // they are read again
			found.Next = fmt.Sprintf("Put the authority's new certificate into %s.", c.File)
		case c.Key == "ca_file":
			found.Next = fmt.Sprintf("Put the authority's new certificate into %s, and restart the gateway.", c.File)
		}
		all = append(all, found)
	}
	return all
}

// replicas finds replicas that cannot be reached, or have another configuration.
func replicas(f Facts) (all []admin.Finding) {
	var self admin.Replica
	for _, r := range f.Replicas {
		if r.Self {
			self = r
		}
	}
	for _, r := range f.Replicas {
		found := admin.Finding{Severity: admin.Warning, Kind: "replica", Subject: r.Name, Look: "/api/v1/replicas"}
		switch {
		case r.Self || r.Leaving:
			continue
		case r.Error != "":
			found.What = fmt.Sprintf("This replica cannot reach the replica %s.", r.Name)
			found.Cause, found.Code = sentence(r.Error), failure.ReplicaUnreachable.String()
			found.Next = fmt.Sprintf("Let the replicas connect to each other: %s has to be reachable from here. If it is gone for good, this ends by itself.", r.Address)
		case r.Revision != self.Revision && r.Revision != "" && self.Revision != "":
			found.What = fmt.Sprintf("The replica %s has another configuration.", r.Name)
			found.Cause = fmt.Sprintf("It has revision %s, this one has %s.", r.Revision, self.Revision)
			found.Next = "Give both the same file; if they have it, look there for why one of them refused it."
		default:
			continue
		}
		all = append(all, found)
	}
	return all
}

// missing finds the replicas that have ended.
func missing(f Facts) (all []admin.Finding) {
	for _, m := range f.Missing {
		all = append(all, admin.Finding{
			Severity: admin.Warning, Kind: "replica", Subject: m.Name, Since: since(m.Gone), Code: failure.ReplicaGone.String(),
			Look:  "/api/v1/replicas",
			What:  fmt.Sprintf("The replica %s is missing.", m.Name),
			Cause: fmt.Sprintf("It was at %s, has gone without leaving, and no other one has come since.", m.Address),
			Next:  "Start a replica in its place. If there are meant to be fewer now, this ends within an hour.",
		})
	}
	return all
}

// sentence makes a sentence of a reason.
func sentence(text string) string {
	if text == "" {
		return "No cause is known."
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}

// count counts things in words, such as "1 record" or "12 records". A form with %d says where the
// number stands.
func count(n int64, one, many string) string {
	form := many
	if n == 1 {
		form = one
	}
	if strings.Contains(many, "%d") {
		if n == 1 {
			return form
		}
		return fmt.Sprintf(form, n)
	}
	return fmt.Sprintf("%d %s", n, form)
}
