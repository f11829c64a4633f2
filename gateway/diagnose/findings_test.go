package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// facts are those of a gateway that is well.
func facts() Facts {
	return Facts{
		Now: noon, Replicas: []admin.Replica{{Name: "a", Self: true, Revision: "1"},
			{Name: "b", Address: "10.0.0.2:7000", Revision: "1"}, {Name: "c", Revision: "0", Leaving: true}},
		Upstreams: []admin.Upstream{
			{Name: "crm", State: "ready", Since: noon.Add(-time.Hour),
				LastFailure: &admin.Failure{Stage: "connect", Error: "once", At: noon.Add(-2 * time.Hour)}},
			{Name: "wiki", State: "connecting", Since: noon.Add(-time.Second)},
		},
		Issuers: []auth.Status{{Issuer: "https://login.example.com", State: "ready", Fetched: noon}},
		Sinks:   []audit.Status{{Name: "file", Queued: 3, Lost: 7, LastLost: noon.Add(-2 * time.Hour)}},
		Certificates: []Certificate{{"sessions.redis",
			tlsfiles.End{Key: "cert_file", File: "redis.pem", At: noon.Add(soon + time.Hour)}}},
		Keys: []apikey.Entry{
			{ID: "later", User: "ci", Expires: noon.Add(15 * 24 * time.Hour).Format(time.RFC3339)},
			{ID: "past", User: "ci", Expires: "2026-01-01T00:00:00Z"}, {ID: "gone", User: "ci", Revoked: "2026-01-01T00:00:00Z"},
		},
		Series:  recent.NewSeries(noon.Add(-2 * time.Hour)),
		Records: func(record.Filter) []*record.Record { return nil },
	}
}

// TestWell: a gateway that is well has no findings.
func TestWell(t *testing.T) {
	if all := Of(facts()); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func failedAt(stage, transport string) func(*Facts) {
	return func(f *Facts) {
		f.Upstreams[0].State, f.Upstreams[0].Transport = "down", transport
		f.Upstreams[0].LastFailure = &admin.Failure{Code: "GH-UPSTREAM-DOWN", Stage: stage, Error: "it failed.",
			Cause: "dial 10.0.0.1:80"}
	}
}

// TestFindings: each thing that is not well is found, with its cause and a next step.
func TestFindings(t *testing.T) {
	for _, tt := range []struct {
		name   string
		breaks func(*Facts)
		// Of the one finding: severity and kind, and parts of what, cause and next.
		is                string
		what, cause, next string
	}{
		{"server away", failedAt("connect", "streamable"), "critical server crm GH-UPSTREAM-DOWN", "The server crm is down.",
			"It could not be reached: dial 10.0.0.1:80.", "Start the server"},
		{"program away", failedAt("connect", "stdio"), "critical server crm GH-UPSTREAM-DOWN", "crm is down", "",
			"Run its command by hand"},
		{"name", failedAt("resolve", "streamable"), "critical server crm GH-UPSTREAM-DOWN", "",
			"Its name could not be resolved", "Correct the host"},
		{"tls", failedAt("tls", "streamable"), "critical server crm GH-UPSTREAM-DOWN", "", "The TLS handshake failed",
			"Renew the server's certificate"},
		{"handshake", failedAt("handshake", "streamable"), "critical server crm GH-UPSTREAM-DOWN", "",
			"It did not answer as an MCP server", "gatehouse check --connect"},
		{"calls", failedAt("call", "streamable"), "critical server crm GH-UPSTREAM-DOWN", "", "A call failed", "own log"},
		{"unknown stage", failedAt("later", "streamable"), "critical server crm GH-UPSTREAM-DOWN", "",
			"It failed: dial 10.0.0.1:80.", "own log"},
		{"no details", func(f *Facts) {
			failedAt("call", "streamable")(f)
			f.Upstreams[0].LastFailure.Cause = ""
		}, "critical server crm GH-UPSTREAM-DOWN", "", "A call failed: it failed.", ""},
		{"credential", func(f *Facts) {
			failedAt("login", "streamable")(f)
			f.Upstreams[0].State = "needs-login"
		}, "critical server crm GH-UPSTREAM-DOWN", "refuses the gateway's credential", "did not accept", "Renew the credential"},
		{"lists", func(f *Facts) {
			failedAt("list", "streamable")(f)
			f.Upstreams[0].State = "degraded"
		}, "warning server crm GH-UPSTREAM-DOWN", "works in part", "does not answer lists", "own log"},
		{"breaker", func(f *Facts) {
			failedAt("connect", "streamable")(f)
			until := noon.Add(time.Second)
			f.Upstreams[0].RefusedUntil = &until
		}, "critical server crm GH-UPSTREAM-DOWN", "", "without asking it", ""},
		{"disabled", func(f *Facts) { f.Upstreams[0].State = "disabled" }, "notice server crm ", "crm is disabled",
			"An operator", "Enable it"},
		{"slow start", func(f *Facts) { f.Upstreams[1].Since = noon.Add(-slowStart) }, "warning server wiki ",
			"has not answered yet", "Nothing is known", "own log"},
		{"one user", func(f *Facts) { f.Upstreams[0].UsersNeedLogin = 1 }, "warning sign-in crm ",
			"1 user has to sign in at crm.", "refused the credential", "sign in again"},
		{"users", func(f *Facts) { f.Upstreams[0].UsersNeedLogin = 2 }, "warning sign-in crm ", "2 users have", "", ""},
		{"a doubt", func(f *Facts) {
			f.State.Warnings = []admin.Problem{{File: "g.yaml", Line: 7, Message: "limits[0]: who: nobody is bob"}}
		}, "warning doubt g.yaml GH-CONFIG-DOUBTFUL", "not meant", "Limits[0]: who: nobody is bob.", "line 7 of g.yaml"},
		{"a restart", func(f *Facts) { f.State.Pending = []admin.Problem{{File: "g.yaml", Line: 7, Message: "http: waits"}} },
			"warning restart g.yaml ", "wait for a restart: http.", "rest of the file holds", "Restart"},
		{"a hook that refuses", func(f *Facts) {
			f.Hooks = []hooks.Outage{{Hook: "dlp", Since: noon, Refuses: true, Why: "connection refused"}}
		}, "critical hook dlp GH-HOOK-DOWN", "is refused", "Connection refused.", "Start its service"},
		{"a hook that lets pass", func(f *Facts) { f.Hooks = []hooks.Outage{{Hook: "dlp", Since: noon}} },
			"warning hook dlp GH-HOOK-DOWN", "pass without it", "", "Start its service"},
		{"redis", func(f *Facts) { f.Store = "the session store is full" }, "critical redis  GH-STORE-DOWN",
			"Redis cannot be used", "The session store is full.", "Start Redis"},
		{"issuer down", func(f *Facts) { f.Issuers[0].State, f.Issuers[0].Reason = "down", "404" },
			"critical issuer https://login.example.com GH-ISSUER-DOWN", "Nobody can sign in", "404.", "auth.issuers"},
		{"issuer away", func(f *Facts) { f.Issuers[0].State = "degraded" }, "warning issuer https://login.example.com ",
			"does not answer", "No cause is known.", "auth.issuers"},
		{"replica away", func(f *Facts) { f.Replicas[1].Error = "timeout" }, "warning replica b GH-REPLICA-UNREACHABLE",
			"cannot reach the replica b", "Timeout.", "10.0.0.2:7000"},
		{"replica gone", func(f *Facts) { f.Missing = []Missing{{Name: "d", Address: "10.0.0.4:7000", Gone: noon}} },
			"warning replica d GH-REPLICA-GONE", "d is missing", "10.0.0.4:7000", "Start a replica"},
		{"another configuration", func(f *Facts) { f.Replicas[1].Revision = "2" }, "warning replica b ",
			"another configuration", "revision 2, this one has 1", "same file"},
		{"sink", func(f *Facts) { f.Sinks[0].Failing, f.Sinks[0].Error = noon.Add(-time.Minute), "disk full" },
			"warning audit file GH-AUDIT-SINK-DOWN", "3 records wait", "Disk full.", "standard output"},
		{"sink that holds calls", func(f *Facts) { f.Sinks[0].Failing, f.Sinks[0].Holds = noon, true },
			"critical audit file GH-AUDIT-SINK-DOWN", "Calls wait", "", ""},
		{"slow sink", func(f *Facts) { f.Sinks[0].Holds = true }, "critical audit file GH-AUDIT-SINK-DOWN", "Calls wait",
			"too slowly", ""},
		{"lost records", func(f *Facts) { f.Sinks[0].LastLost = noon.Add(-time.Minute) }, "warning audit file ",
			"Records are missing", "lost 7 records", "on_full: block"},
		{"certificate", func(f *Facts) { f.Certificates[0].At = noon.Add(50 * time.Hour) }, "warning certificate redis.pem ",
			"sessions.redis.cert_file ends in 2 days.", "2026-11-25 14:00:00", "redis.pem"},
		{"certificate of today", func(f *Facts) { f.Certificates[0].At = noon.Add(time.Hour) },
			"warning certificate redis.pem ", "ends within a day", "", ""},
		{"ended certificate", func(f *Facts) { f.Certificates[0].At = noon }, "critical certificate redis.pem ", "has ended",
			"until 2026-11-23", ""},
		{"certificate that is none", func(f *Facts) {
			f.Certificates[0].Problem, f.Certificates[0].At = "no such file", time.Time{}
		}, "critical certificate redis.pem ", "cannot be read", "No such file.", "Correct sessions.redis.cert_file"},
		{"certificate that is not used", func(f *Facts) { f.Certificates[0].Problem = "no such file" },
			"critical certificate redis.pem ", "is not used", "The one before is good until",
			"Correct sessions.redis.cert_file"},
		{"ended authority", func(f *Facts) { f.Certificates[0].Key, f.Certificates[0].At = "ca_file", noon },
			"critical certificate redis.pem ", "sessions.redis.ca_file", "", "restart"},
		{"reload", func(f *Facts) {
			f.State.Problems = []admin.Problem{{File: "g.yaml", Line: 3, Column: 3, Message: `unknown key "lisen"`},
				{Message: "x"}, {Message: "y"}}
			f.Line = "  lisen: secret"
		}, "warning reload g.yaml GH-CONFIG-INVALID", "was refused", `Line 3, column 3: Unknown key "lisen". There are 2 more.`, "Correct line 3 of g.yaml"},
		{"file away", func(f *Facts) { f.State.Problems = []admin.Problem{{File: "g.yaml", Message: "cannot be read"}} },
			"warning reload g.yaml GH-CONFIG-INVALID", "", "Cannot be read.", "Correct the file"},
		{"pins", func(f *Facts) {
			f.Pins = []admin.Pin{{Upstream: "crm", List: "tools", Name: "a", Hidden: true},
				{Upstream: "crm", List: "instructions"}}
		}, "warning pin crm ", "2 things", "tools a, instructions. Clients do not see 1", "gatehouse lock --review"},
		{"deceiving pin", func(f *Facts) {
			f.Pins = []admin.Pin{{Upstream: "crm", List: "tools", Name: "a", Deceives: []string{"x"}}}
		}, "critical pin crm ", "1 thing ", "people cannot see", "before anybody uses"},
		{"deceit", func(f *Facts) { f.Spoofs = []Spoof{{Upstream: "crm", Text: "tool a: hidden"}} }, "warning deceit crm ",
			"may deceive", "tool a: hidden.", "deny it in policy"},
		{"left out", func(f *Facts) {
			f.Broken = []Broken{{"crm", "tool", "a", "no schema", 0}, {"crm", "tool", "b", "x", 0}, {"crm", "tool", "c", "x", 0},
				{"crm", "tool", "d", "x", 0}}
		}, "notice left-out crm ", "4 items of crm", "tool a (no schema), tool b (x), tool c (x) and 1 other.", "corrected"},
		{"beyond a bound", func(f *Facts) { f.Broken = []Broken{{"crm", "tools", "", "the list is too long", 8000}} },
			"notice left-out crm ", "8000 items of crm", "the list is too long", ""},
		{"stopping", func(f *Facts) { f.Stopping = true }, "notice stopping  ", "stopping", "", "Nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := facts()
			tt.breaks(&f)
			all := Of(f)
			if len(all) != 1 {
				t.Fatalf("%d findings: %+v", len(all), all)
			}
			one := all[0]
			if got := strings.Join([]string{one.Severity, one.Kind, one.Subject, one.Code}, " "); got != tt.is {
				t.Errorf("%q, want %q", got, tt.is)
			}
			for text, part := range map[string]string{one.What: tt.what, one.Cause: tt.cause, one.Next: tt.next} {
				if !strings.Contains(text, part) || !strings.HasSuffix(text, ".") || strings.Contains(text, "%!") {
					t.Errorf("%q, want %q", text, part)
				}
			}
			if (one.Kind == "sign-in" || one.Kind == "deceit") && one.Look != "/api/v1/upstreams/crm" {
				t.Errorf("look at %q, which may be empty", one.Look)
			}
			if !strings.HasPrefix(one.Look, "/") {
				t.Errorf("look at %q", one.Look)
			}
		})
	}
}

// TestJustStarted: an issuer that is asked for the first time is no finding.
func TestJustStarted(t *testing.T) {
	f := facts()
	f.Issuers[0] = auth.Status{State: "down", Reason: "not fetched yet"}
	if all := Of(f); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// TestExcerpt: the line of a refused reload is shown, with a caret and without what may be secret.
func TestExcerpt(t *testing.T) {
	f := facts()
	f.State.Problems, f.Line = []admin.Problem{{File: "g.yaml", Line: 3, Column: 3, Message: "unknown key"}},
		"  pasword: hunter2"
	if all := Of(f); len(all) != 1 || all[0].Excerpt != "  pasword: …\n  ^" {
		t.Errorf("%+v", all)
	}
}

// TestOrder: the worst come first, and there are not too many.
func TestOrder(t *testing.T) {
	f := facts()
	f.Stopping, f.Upstreams[0].UsersNeedLogin, f.Upstreams[1].State = true, 1, "down"
	var got []string
	for _, one := range Of(f) {
		got = append(got, one.Kind)
	}
	if strings.Join(got, " ") != "server sign-in stopping" {
		t.Errorf("%q", got)
	}
	for range Most + 5 {
		f.Upstreams = append(f.Upstreams, admin.Upstream{Name: "x", State: "down"})
	}
	if all := Of(f); len(all) != Most {
		t.Errorf("%d findings", len(all))
	}
}

// put counts n records of a kind at a time.
func put(f *Facts, ago time.Duration, n int, r record.Record) {
	for range n {
		r.Time = noon.Add(-ago)
		one := r
		f.Series.Put(&one)
	}
}

func TestRises(t *testing.T) {
	ok := record.Record{Kind: record.KindCall, Name: "x", Upstream: "crm", Outcome: "ok"}
	fails := record.Record{Kind: record.KindCall, Name: "x", Upstream: "crm", Outcome: "upstream"}
	ours := record.Record{Kind: record.KindCall, Name: "x", Outcome: "internal"}
	denied := record.Record{Kind: record.KindCall, Name: "x", Decision: "deny", Outcome: "invalid"}
	token := record.Record{Kind: record.KindSignIn, Event: "refused"}
	const now, earlier = 30 * time.Second, 30 * time.Minute
	for _, tt := range []struct {
		name    string
		happens func(*Facts)
		want    string // kinds and subjects
	}{
		{"nothing", func(*Facts) {}, ""},
		{"errors", func(f *Facts) { put(f, now, 5, fails); put(f, now, 20, ok) }, "errors crm"},
		{"few errors", func(f *Facts) { put(f, now, 4, fails) }, ""},
		{"a small part of calls", func(f *Facts) { put(f, now, 5, fails); put(f, now, 200, ok) }, ""},
		{"as always", func(f *Facts) { put(f, now, 5, fails); put(f, now, 20, ok); put(f, earlier, 60, fails) }, ""},
		{"most calls, as always", func(f *Facts) { put(f, now, 5, fails); put(f, earlier, 600, fails) }, "errors crm"},
		{"more than usual", func(f *Facts) { put(f, now, 20, fails); put(f, now, 80, ok); put(f, earlier, 60, fails) },
			"errors crm"},
		{"over", func(f *Facts) { put(f, 3*time.Minute, 50, fails) }, ""},
		{"the gateway's own", func(f *Facts) { put(f, now, 9, ours) }, "errors "},
		{"refusals", func(f *Facts) { put(f, now, 10, denied) }, "refusals "},
		{"few refusals", func(f *Facts) { put(f, now, 9, denied) }, ""},
		{"refusals as always", func(f *Facts) { put(f, now, 10, denied); put(f, earlier, 120, denied) }, ""},
		{"tokens", func(f *Facts) { put(f, now, 10, token) }, "turned-away "},
		{"just started", func(f *Facts) { f.Series = recent.NewSeries(noon.Add(-time.Minute)); put(f, now, 10, denied) },
			"refusals "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := facts()
			tt.happens(&f)
			var got []string
			for _, one := range Of(f) {
				got = append(got, one.Kind+" "+one.Subject)
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestMostly: a rise says what most of it have in common.
func TestMostly(t *testing.T) {
	f := facts()
	put(&f, time.Second, 12, record.Record{Kind: record.KindCall, Name: "x", Decision: "deny", Outcome: "invalid"})
	var asked []record.Filter
	f.Records = func(filter record.Filter) (all []*record.Record) {
		asked = append(asked, filter)
		for i := range 12 {
			all = append(all, &record.Record{Decision: "deny", Rule: "no exports", RuleAt: "g.yaml:7",
				User: fmt.Sprint("user ", i%4)})
		}
		return all
	}
	all := Of(f)
	if len(all) != 1 ||
		all[0].Cause != "12 refusals in the last two minutes, 0 in the hour before. Most: the rule no exports at g.yaml:7." {
		t.Errorf("%+v", all)
	}
	for _, filter := range asked {
		if !filter.Since.Equal(noon.Add(-lately)) {
			t.Errorf("asked for %+v", filter)
		}
	}
}

// TestSentence: a reason may begin with any letter.
func TestSentence(t *testing.T) {
	for text, want := range map[string]string{"": "No cause is known.", "it failed.": "It failed.", "über": "Über."} {
		if got := sentence(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestKeys: API keys that end soon, have just ended or never end are found.
func TestKeys(t *testing.T) {
	f := facts()
	at := func(d time.Duration) string { return noon.Add(d).Format(time.RFC3339) }
	f.Keys = []apikey.Entry{
		{ID: "a", User: "ci", Name: "nightly", Expires: at(3*24*time.Hour + time.Minute)},
		{ID: "b", User: "ci", Expires: at(time.Hour)},
		{ID: "c", User: "cron", Expires: at(-time.Hour)}, {ID: "d", User: "ci"}, {ID: "e", User: "cron"},
	}
	var got []string
	for _, one := range Of(f) {
		got = append(got, one.Severity+" "+one.Subject+" "+one.What)
	}
	want := []string{
		"warning ghk_a The API key ghk_a (nightly) of ci ends in 3 days.",
		"warning ghk_b The API key ghk_b of ci ends within a day.",
		"warning ghk_c The API key ghk_c of cron has ended.",
		"notice  2 API keys never end: ghk_d of ci, ghk_e of cron.",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
