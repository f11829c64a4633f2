package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

func TestBadConfiguration(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         []string
	}{
		{
			name:   "unknown key",
			config: "upstreams:\n  - name: a\n    url: http://127.0.0.1:1/mcp\n    timout: {call: 1s}\n",
			want:   []string{":4", "timout", "upstreams[0]"},
		},
		{
			name: "duplicate upstream",
			config: "upstreams:\n  - {name: crm, url: http://127.0.0.1:1/mcp}\n" +
				"  - {name: crm, url: http://127.0.0.1:2/mcp}\n",
			want: []string{":3", "crm", "upstreams[1]"},
		},
		{
			name:   "all problems at once",
			config: "listen: nowhere\nupstreams:\n  - {name: a b, url: http://127.0.0.1:1/mcp}\n  - {name: b}\n",
			want:   []string{"listen", "a b", "url, command or skills"},
		},
		{
			name:   "auth none on other than loopback",
			config: "listen: 0.0.0.0:8080\nupstreams:\n  - {name: a, url: http://127.0.0.1:1/mcp}\n",
			want:   []string{"auth", "loopback"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "gatehouse.yaml")
			if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := gateway.New(gateway.Options{ConfigFile: file, Log: slog.New(slog.DiscardHandler)})
			var bad *config.Error
			if !errors.As(err, &bad) {
				t.Fatalf("error %v, want a ConfigError", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not mention %q:\n%v", want, err)
				}
			}
		})
	}
}

// TestBadRequests sends invalid requests while another client's call runs. Each gets a
// clear answer, and the call is not disturbed.
func TestBadRequests(t *testing.T) {
	url, e := shared(t)
	bystander := connect(t, url, statefulClient)
	key := rand.Text()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := bystander.CallTool(ctx, &sdk.CallToolParams{
			Name: "old-http__wait", Arguments: map[string]any{"key": key},
		})
		left <- err
	}()
	e.await(t, "started "+key)

	session, modern := raw(t, url, statefulClient), raw(t, url, stateless)
	list := `{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{}}`
	modernCall := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"new-http__echo",` +
		`"arguments":{"text":"hi"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, c := range []struct {
		name   string
		client *mcptest.Client
		body   string
		header http.Header
		status int
		code   int
		id     string
	}{
		{"malformed JSON", session, `{"jsonrpc":"2.0","id":1,`, nil, 400, -32700, ""},
		{"malformed JSON, stateless", modern, `nonsense`, nil, 400, -32700, "null"},
		{"not JSON-RPC", session, `{"id":1,"method":"ping"}`, nil, 400, -32600, ""},
		{"the same member twice", session, `{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`, nil, 400, -32700, ""},
		{"a batch where there are none", session, "[" + list + "]", nil, 400, -32600, ""},
		{"Mcp-Method is another", modern, modernCall,
			http.Header{"Mcp-Method": {"tools/list"}, "Mcp-Name": {"new-http__echo"}}, 400, -32020, `"x"`},
		{"Mcp-Name is another", modern, modernCall, http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"new-http__fail"}},
			400, -32020, `"x"`},
		{"Mcp-Name is missing", modern, modernCall, http.Header{"Mcp-Method": {"tools/call"}}, 400, -32020, `"x"`},
		{"an older header with a stateless body", modern, modernCall, http.Header{"Mcp-Protocol-Version": {"2025-06-18"},
			"Mcp-Method": {"tools/call"}, "Mcp-Name": {"new-http__echo"}}, 400, -32020, `"x"`},
		{"a stateless header in a session", session, list, http.Header{"Mcp-Protocol-Version": {"2026-07-28"}}, 400,
			-32602, "5"},
		{"an unknown version", session, list, http.Header{"Mcp-Protocol-Version": {"1999-01-01"}}, 400, -32022, "5"},
		{"another content type", session, list, http.Header{"Content-Type": {"text/plain"}}, 415, 0, ""},
		{"an origin that is not ours", session, list, http.Header{"Origin": {"https://evil.example"}}, 403, 0, ""},
		{"oversize", session, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 5<<20) + `"}}`,
			nil, 413, 0, ""},
		{"no session", session, list, http.Header{"Mcp-Session-Id": {""}}, 400, 0, "5"},
		{"unknown session", session, list, http.Header{"Mcp-Session-Id": {"AAAAAAAAAAAAAAAAAAAAAAAAAA"}}, 404, 0, "null"},
		{"unknown tool", session, `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"nobody__nothing"}}`, nil,
			200, -32602, "6"},
		{"unknown cursor", session, `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"made up"}}`, nil,
			200, -32602, "7"},
		{"unknown method", session, `{"jsonrpc":"2.0","id":8,"method":"tools/steal"}`, nil, 200, -32601, "8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, err := c.client.Do(deadline(t), http.MethodPost, c.body, c.header)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if x.Status != c.status {
				t.Errorf("status %d, want %d: %s", x.Status, c.status, x.Text())
				return
			}
			answer, err := x.Next()
			if err != nil || answer.Error == nil {
				t.Fatalf("no JSON-RPC error in the answer: %q, %v", answer.Text, err)
			}
			if c.code != 0 && answer.Error.Code != c.code {
				t.Errorf("code %d, want %d: %s", answer.Error.Code, c.code, answer.Text)
			}
			if c.id != "" && string(answer.ID) != c.id {
				t.Errorf("id %s, want %s: %s", answer.ID, c.id, answer.Text)
			}
			if answer.Error.Message == "" {
				t.Error("the error does not say anything")
			}
			// Neither this client nor the bystander is disturbed.
			ok, _, err := c.client.Call(deadline(t), "tools/call", `{"name":"new-http__echo","arguments":{"text":"hi"}}`)
			if err != nil || ok.Error != nil {
				t.Errorf("the next call: %s, %v", ok.Text, err)
			}
		})
	}
	if e.count("cancelled "+key) > 0 || len(left) > 0 {
		t.Error("somebody else's call was disturbed")
	}
	leave()
	receive(t, "the bystander's end", left)
	e.await(t, "cancelled "+key)
}

func TestUnreachableUpstreamAtStart(t *testing.T) {
	good := scripted(t, statefulServer)
	good.Tools("fine")
	good.Tool("fine", func(c *mcptest.Call) { c.Text("fine") })
	broken := scripted(t, statefulServer)
	broken.On("initialize", func(c *mcptest.Call) { c.Garbage("<html>not MCP</html>") })
	url := start(t, gateway.Config{Upstreams: []upstream.Config{
		{Name: "gone", URL: "http://127.0.0.1:1/mcp"},
		{Name: "nonsense", URL: broken.URL},
		{Name: "missing", Command: []string{"/nonexistent/server"}},
		{Name: "good", URL: good.URL},
	}})
	for _, revision := range []string{statefulClient, stateless} {
		c := raw(t, url, revision)
		list, _, err := c.Call(deadline(t), "tools/list", "")
		if got := names(t, list, "tools"); err != nil || len(got) != 1 || got[0] != "good__fine" {
			t.Errorf("%s: the list is %q, %v", revision, got, err)
		}
		for _, name := range []string{"gone", "nonsense", "missing"} {
			answer, _, err := c.Call(deadline(t), "tools/call", `{"name":"`+name+`__any"}`)
			if err != nil || answer.Error == nil || answer.Error.Code != 50201 || !strings.Contains(answer.Error.Message, name) {
				t.Errorf("%s: %s, %v: want 50201 with the upstream's name", name, answer.Text, err)
				continue
			}
			var data struct{ Upstream, Executed string }
			if !dataOf(answer, &data) || data.Upstream != name || data.Executed != "no" {
				t.Errorf("%s: data %s", name, answer.Error.Data)
			}
		}
		ok, _, err := c.Call(deadline(t), "tools/call", `{"name":"good__fine"}`)
		if err != nil || ok.Error != nil {
			t.Errorf("the good one: %s, %v", ok.Text, err)
		}
	}
}

func TestUpstreamDiesInMidCall(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulServer, stateless} {
		t.Run("server "+revision, func(t *testing.T) {
			frail, sound := scripted(t, revision), scripted(t, revision)
			frail.Tools("die")
			frail.Tool("die", func(c *mcptest.Call) {
				c.Progress(1)
				c.Die()
			})
			started, finish := make(chan struct{}), make(chan struct{})
			sound.Tools("slow")
			sound.Tool("slow", func(c *mcptest.Call) {
				close(started)
				<-finish
				c.Text("done")
			})
			url := start(t, gateway.Config{Upstreams: []upstream.Config{
				{Name: "frail", URL: frail.URL}, {Name: "sound", URL: sound.URL},
			}})
			c := raw(t, url, statefulClient)
			slow := make(chan mcptest.Message, 1)
			go func() {
				answer, _, _ := c.Call(deadline(t), "tools/call", `{"name":"sound__slow"}`)
				slow <- answer
			}()
			receive(t, "the slow call", started)
			answer, before, err := c.Call(deadline(t), "tools/call", `{"name":"frail__die","_meta":{"progressToken":1}}`)
			if err != nil || answer.Error == nil || !strings.Contains(answer.Error.Message, "frail") {
				t.Fatalf("%s, %v: want an error that names frail", answer.Text, err)
			}
			if len(before) != 1 {
				t.Errorf("%d progress notifications before the end, want 1", len(before))
			}
			var data struct{ Upstream, Executed string }
			if !dataOf(answer, &data) || data.Upstream != "frail" || data.Executed != "unknown" {
				t.Errorf("data %s", answer.Error.Data)
			}
			if calls := frail.Received("tools/call"); len(calls) != 1 {
				t.Errorf("the call was made %d times, want once", len(calls))
			}
			close(finish)
			if answer := receive(t, "the slow answer", slow); answer.Error != nil || answer.Result == nil {
				t.Errorf("the other upstream's call: %s", answer.Text)
			}
		})
	}
	t.Run("stdio", func(t *testing.T) {
		e := newEvents()
		defer e.server.Close()
		url := start(t, gateway.Config{Upstreams: []upstream.Config{
			{Name: "frail", Command: []string{os.Args[0], stdioCommand, statefulServer, e.server.URL}},
		}})
		c, other := raw(t, url, statefulClient), raw(t, url, statefulClient)
		if ok, _, err := other.Call(deadline(t), "tools/call",
			`{"name":"frail__echo","arguments":{"text":"a"}}`); err != nil || ok.Error != nil {
			t.Fatalf("before: %s, %v", ok.Text, err)
		}
		answer, _, err := c.Call(deadline(t), "tools/call", `{"name":"frail__exit"}`)
		if err != nil || answer.Error == nil || !strings.Contains(answer.Error.Message, "frail") {
			t.Fatalf("%s, %v: want an error that names frail", answer.Text, err)
		}
		// The other session has its own process; this one gets a new one.
		for who, c := range map[string]*mcptest.Client{"another session": other, "the same session": c} {
			ok, _, err := c.Call(deadline(t), "tools/call", `{"name":"frail__echo","arguments":{"text":"b"}}`)
			if err != nil || ok.Error != nil {
				t.Errorf("%s, afterwards: %s, %v", who, ok.Text, err)
			}
		}
	})
}

func names(t *testing.T, list mcptest.Message, member string) []string {
	t.Helper()
	var items []struct{ Name string }
	if !list.Value(member, &items) {
		t.Errorf("no %s in %s", member, list.Text)
	}
	var out []string
	for _, item := range items {
		out = append(out, item.Name)
	}
	return out
}

func dataOf(m mcptest.Message, v any) bool {
	return m.Error != nil && json.Unmarshal(m.Error.Data, v) == nil
}
