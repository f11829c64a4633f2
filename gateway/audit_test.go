package gateway

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// recorded returns the records of one kind in a file, whose chain must be intact.
func recorded(t *testing.T, path, kind string) []map[string]any {
	t.Helper()
	reports, err := record.VerifyFiles([]string{path}, nil, nil)
	if err != nil || len(reports) != 1 || !reports[0].OK() {
		t.Fatal(reports, err)
	}
	all, err := mcptest.Records(path, kind)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCallsAreRecorded: each call has a record with what was decided, by which rule, and where
// that stands; a reload changes the sinks, and loses nothing.
func TestCallsAreRecorded(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	dir := t.TempDir()
	text := func(file string) string {
		return fmt.Sprintf(`upstreams:
- {name: up, url: %q}
audit:
  sinks: [{type: file, path: %q}]
policy:
  rules:
  - {name: may work, allow: ["tools:up/work"], record: {arguments: full, redact: [token]}}
  - name: not now
    when: has(args.later)
    deny: ["tools:*"]
limits: [{name: few, what: ["tools:up/*"], rate: 3/h}]
`, site.url, filepath.Join(dir, file))
	}
	c := startUnwatched(t, text("a.jsonl"))
	call := func(method, name, params string) {
		caller := mcp.NewCaller(mcp.Caller{Issuer: "https://i.example", Subject: "alice", ClientID: "agent",
			Groups: []string{"g"}})
		observed(t, c, &mcp.Call{ID: "c1", Method: method, Name: name, Params: mcp.Raw(params), Caller: caller,
			Session: "alice:~1", Ephemeral: true, Revision: "new", Notify: func(mcp.Event) {}})
	}
	work := func(arguments string) {
		call(mcp.MethodToolsCall, "up__work", `{"name":"up__work","arguments":`+arguments+
			`,"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`)
	}
	work(`{}`)
	work(`{"later":"tomorrow"}`)
	call(mcp.MethodToolsCall, "up__secret", `{}`)
	work(`{"canary":4711, "token":"s3cret"}`)
	c.reload(t, text("b.jsonl"))
	work(`{}`) // one too many
	call(mcp.MethodToolsList, "", `{}`)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	with := func(more map[string]any) map[string]any {
		all := map[string]any{"id": "c1", "issuer": "https://i.example", "user": "alice", "groups": []any{"g"},
			"client": "agent", "session": "2d7ea3fd2a9b5a6a1a1a1a1a1a1a1a1a",
			"revision": "new", "era": "stateless", "method": "tools/call", "name": "up__work", "request_bytes": 1.0}
		maps.Copy(all, more)
		for name, value := range all {
			if value == nil {
				delete(all, name)
			}
		}
		return all
	}
	server := map[string]any{"upstream": "up", "original": "work", "thing": "tools", "upstream_revision": "2026-07-28",
		"upstream_era": "stateless", "trace": "0af7651916cd43dd8448eb211c80319c"}
	ran := with(server)
	maps.Copy(ran, map[string]any{"decision": "allow", "rule": "may work", "rule_at": c.file + ":8", "outcome": "ok",
		"executed": "yes", "reply_bytes": 1.0, "arguments_digest": "x"})
	kept := maps.Clone(ran)
	kept["arguments"] = map[string]any{"canary": 4711.0, "token": "<redacted>"}
	ran["arguments"] = map[string]any{}
	denied := with(server)
	maps.Copy(denied, map[string]any{"decision": "deny", "rule": "not now", "rule_at": c.file + ":9", "outcome": "invalid",
		"executed": "no", "code": -32602.0, "error_code": "GH-ARGUMENTS-DENIED",
		"explained": []any{`rule "not now": when is true, with later = not recorded`}, "arguments_digest": "x"})
	unknown := with(map[string]any{"name": "up__secret", "decision": "unknown", "outcome": "invalid", "executed": "no",
		"code": -32602.0, "error_code": "GH-NOT-FOUND"})
	limited := with(map[string]any{"limit": "few", "outcome": "limited", "executed": "no", "code": 42901.0,
		"error_code": "GH-RATE-LIMITED", "arguments_digest": "x", "trace": server["trace"]})
	list := with(map[string]any{"method": "tools/list", "name": nil, "outcome": "ok", "reply_bytes": 1.0})
	for file, want := range map[string][]map[string]any{"a.jsonl": {ran, denied, unknown, kept},
		"b.jsonl": {limited, list}} {
		got := recorded(t, filepath.Join(dir, file), "call")
		for _, r := range got {
			for _, name := range []string{"request_bytes", "reply_bytes"} {
				if n, ok := r[name].(float64); ok && n > 1 {
					r[name] = 1.0
				}
			}
			if r["arguments_digest"] != nil {
				r["arguments_digest"] = "x"
			}
			if digest, _ := r["session"].(string); len(digest) == 32 {
				r["session"] = want[0]["session"]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		text, _ := os.ReadFile(filepath.Join(dir, file))
		if strings.Contains(string(text), "s3cret") || strings.Contains(string(text), "tomorrow") {
			t.Error("an argument was recorded that should not be")
		}
	}
}

// TestAuditRefused: a sink that cannot be written to refuses the configuration.
func TestAuditRefused(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	head := fmt.Sprintf("upstreams: [{name: up, url: %q}]\n", site.url)
	c := startUnwatched(t, head)
	c.write(t, head+"audit: {sinks: [{type: file, path: none/audit.jsonl}]}\n")
	if err := c.Reload(); err == nil || !strings.Contains(err.Error(), "audit: sinks[0]: path: ") {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"audit: {sinks: []}":                                                         "c.yaml:1: audit.sinks: at least one is needed, such as {type: file, path: audit.jsonl}",
		"audit: {queue: 5}":                                                          "c.yaml:1: audit.sinks: at least one is needed, such as {type: file, path: audit.jsonl}",
		"audit: {sinks: [{type: kafka}]}":                                            `c.yaml:1: audit.sinks[0].type: "kafka": want one of file, stdout, syslog, webhook, otlp`,
		"audit: {sinks: [{type: file}]}":                                             "c.yaml:1: audit.sinks[0].path: is needed: the file, such as /var/log/gatehouse/audit.jsonl",
		"audit: {sinks: [{type: stdout}, {type: stdout}]}":                           `c.yaml:1: audit.sinks[1].name: sinks[0] is called "stdout" already: give each a name of its own`,
		"audit: {sinks: [{type: stdout, keep: 3}]}":                                  "c.yaml:1: audit.sinks[0].keep: is for the type file",
		"audit: {sinks: [{type: webhook, url: http://a.example}]}":                   "c.yaml:1: audit.sinks[0].url: http is only for loopback addresses; use https, or set allow_plaintext: true",
		"audit: {sinks: [{type: otlp, url: https://a.example, headers: {Host: x}}]}": "c.yaml:1: audit.sinks[0].headers.Host: the gateway sets it",
		"audit: {sinks: [{type: stdout}], on_full: wait}":                            `c.yaml:1: audit.on_full: "wait": want drop or block`,
		"audit: {sinks: [{type: stdout}], key: short}":                               "c.yaml:1: audit.key: 5 bytes are too few: at least 32 are needed, such as those of openssl rand -base64 32",
		"audit: {sinks: [{type: file, path: a, sync: sometimes}]}":                   `c.yaml:1: audit.sinks[0].sync: "sometimes": want always, second or never`,
		"audit: {sinks: [{type: file, path: a, max_bytes: 10}]}":                     "c.yaml:1: audit.sinks[0].max_bytes: 10: want at least 64KiB",
		"audit: {sinks: [{type: stdout, name: A}]}":                                  `c.yaml:1: audit.sinks[0] (A): name: "A": want at most 32 letters a-z, digits and -`,
		"audit: {sinks: [{type: file, path: a}, {type: file, name: b, path: a}]}":    "c.yaml:1: audit.sinks[1] (b): path: sinks[0] writes to it already",
	} {
		_, _, err := config.Parse("c.yaml", []byte(text+"\nupstreams: [{name: a, url: https://a.example}]\n"))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

// TestListeningIsRecordedOnce: what a client without a session listens to is one call, however many
// reloads there are; what the gateway listens to for a client with a session is none.
func TestListeningIsRecordedOnce(t *testing.T) {
	one, other := newSite(t, true, one("work", saying("x"))), newSite(t, true, one("more", saying("y")))
	for revision, want := range map[string]int{stateful: 0, stateless: 1} {
		records := filepath.Join(t.TempDir(), "audit.jsonl")
		text := func(url string) string {
			return fmt.Sprintf("upstreams: [{name: up, url: %q}]\naudit: {sinks: [{type: file, path: %q}]}\n", url, records)
		}
		c := startUnwatched(t, text(one.url))
		session, heard := hearing(t, c.Gateway, revision)
		if _, err := callTool(t.Context(), session, "up__work"); err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{other.url, one.url} {
			c.reload(t, text(url))
			select {
			case <-heard:
			case <-time.After(patience):
				t.Fatalf("%s: nothing was heard of a reload", revision)
			}
		}
		session.Close()
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range recorded(t, records, "call") {
			if r["method"] == mcp.MethodListen {
				n++
			}
		}
		if lines := strings.Count(c.log.String(), "method="+mcp.MethodListen); n != want || lines != want {
			t.Errorf("%s: %d records and %d lines of listening, want %d", revision, n, lines, want)
		}
	}
}
