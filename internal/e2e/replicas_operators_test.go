package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestReplicasOperators: whichever replica an operator asks, the sessions of all are shown, and
// one is ended where it is. A server is disabled at all of them.
func TestReplicasOperators(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	cfg := gateway.Config{
		Sessions:  session.Config{Store: session.StoreRedis, Key: "0123456789abcdef0123456789abcdef"},
		Replicas:  cluster.Config{Listen: "127.0.0.1:0"},
		Admin:     config.Admin{Listen: "127.0.0.1:0", API: admin.Config{Loopback: admin.RoleOperator}},
		Upstreams: []upstream.Config{{Name: "up", URL: scripted(t, statefulServer).URL}},
	}
	cfg.Sessions.Redis.URL = mcp.Secret(redis.URL())
	var replicas []*gateway.Gateway
	var stops []func()
	var sessions []string // digests
	for range 2 {
		g, stop, err := run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		replicas, stops = append(replicas, g), append(stops, stop)
	}
	ask := func(at int, method, path string) (int, []byte) {
		req, err := http.NewRequestWithContext(deadline(t), method,
			"http://"+replicas[at].AdminAddr().String()+"/api/v1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := ownClient(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, text
	}
	list := func(at int) (owners map[string]string, missing []string) {
		var answer struct {
			Sessions []admin.Session
			Missing  []string
		}
		if status, text := ask(at, http.MethodGet, "/sessions"); status != http.StatusOK ||
			json.Unmarshal(text, &answer) != nil {
			t.Fatalf("%d %s", status, text)
		}
		owners = make(map[string]string)
		for _, s := range answer.Sessions {
			owners[s.Session] = s.Replica
		}
		return owners, answer.Missing
	}
	for at, g := range replicas {
		raw(t, g.URL(), statefulClient)
		eventually(t, "both replicas show the new session", func() bool {
			here, _ := list(at)
			there, _ := list(1 - at)
			return len(here) == at+1 && len(there) == at+1
		})
		owners, _ := list(at)
		for digest := range owners {
			if !slices.Contains(sessions, digest) {
				sessions = append(sessions, digest)
			}
		}
	}
	for at := range replicas {
		owners, missing := list(at)
		if owners[sessions[0]] == "" || owners[sessions[1]] == "" || owners[sessions[0]] == owners[sessions[1]] ||
			len(missing) > 0 {
			t.Errorf("replica %d shows the owners %v, missing %v", at, owners, missing)
		}
	}
	if status, text := ask(0, http.MethodDelete, "/sessions/"+sessions[1]); status != http.StatusNoContent {
		t.Errorf("ending a session of the other replica: %d %s", status, text)
	}
	if owners, _ := list(1); owners[sessions[1]] != "" || owners[sessions[0]] == "" {
		t.Errorf("after the end of one, the owners are %v", owners)
	}
	if status, text := ask(0, http.MethodDelete, "/sessions/"+sessions[1]); status != http.StatusNotFound {
		t.Errorf("ending it once more: %d %s", status, text)
	}
	for _, what := range []string{"disable", "enable"} {
		if status, text := ask(0, http.MethodPost, "/upstreams/up/"+what); status != http.StatusOK ||
			bytes.Contains(text, []byte("missing")) {
			t.Errorf("%s: %d %s", what, status, text)
		}
		_, text := ask(1, http.MethodGet, "/upstreams/up")
		var up admin.Server
		if err := json.Unmarshal(text, &up); err != nil || (up.Disabled != nil) != (what == "disable") ||
			!slices.ContainsFunc(up.Timeline, func(c admin.Change) bool { return c.By == "loopback" && c.Did == what+"d" }) {
			t.Errorf("after %s, the other replica says %s", what, text)
		}
	}
	stops[1]()
	if owners, missing := list(0); len(owners) != 1 || len(missing) > 0 {
		t.Errorf("after the stop of a replica, the owners are %v, missing %v", owners, missing)
	}
}

// TestReplicasTrail: whichever replica an operator asks, a call has its steps and messages, with the
// values that the operator's role may see. The replica that ran it is missed in a sentence.
func TestReplicasTrail(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	server := scripted(t, statefulServer)
	server.Tools("work")
	server.Tool("work", func(c *mcptest.Call) { c.Text("done") })
	const canary, auditor = "C4N4RY", "0123456789abcdef0123456789abcdef"
	cfg := gateway.Config{
		Sessions: session.Config{Store: session.StoreRedis, Key: "0123456789abcdef0123456789abcdef"},
		Replicas: cluster.Config{Listen: "127.0.0.1:0"},
		Admin: config.Admin{Listen: "127.0.0.1:0", API: admin.Config{
			Loopback: admin.RoleViewer, Messages: "full",
			Tokens: []admin.Token{{Name: "amy", Role: admin.RoleAuditor, Secret: auditor}},
		}},
		Upstreams: []upstream.Config{{Name: "up", URL: server.URL}},
	}
	cfg.Sessions.Redis.URL = mcp.Secret(redis.URL())
	var replicas []*gateway.Gateway
	var stop func()
	for range 2 {
		g, end, err := run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(end)
		replicas, stop = append(replicas, g), end
	}
	ask := func(path, token string, answer any) bool {
		url := "http://" + replicas[0].AdminAddr().String() + "/api/v1" + path
		req, err := http.NewRequestWithContext(deadline(t), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := ownClient(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(answer) == nil
	}
	const work = `{"name":"up__work","arguments":{"who":"` + canary + `"}}`
	m, _, err := raw(t, replicas[1].URL(), statefulClient).Call(deadline(t), "tools/call", work)
	if err != nil || m.Error != nil {
		t.Fatal(m.Text, err)
	}
	var id string
	eventually(t, "the other replica knows the call", func() bool {
		var page struct{ Decisions []admin.Decision }
		if ask("/decisions?kind=call&name=work", "", &page) && len(page.Decisions) == 1 {
			id = page.Decisions[0].ID
		}
		return id != ""
	})
	for token, values := range map[string]bool{"": false, auditor: true} {
		var call admin.Call
		if !ask("/calls/"+id, token, &call) || len(call.Steps) == 0 || len(call.Messages) != 4 || call.NoTrail != "" ||
			call.Values != values || call.Arguments != values {
			t.Fatalf("auditor %v: %+v", values, call)
		}
		for _, m := range call.Messages[:2] {
			if strings.Contains(m.Text, canary) != values {
				t.Errorf("auditor %v: %s", values, m.Text)
			}
		}
	}
	stop()
	var call admin.Call
	if !ask("/calls/"+id, auditor, &call) || len(call.Steps) > 0 || call.Record.ID != id ||
		!strings.HasSuffix(call.NoTrail, "is away") {
		t.Errorf("without the replica that ran it: %+v", call)
	}
}
