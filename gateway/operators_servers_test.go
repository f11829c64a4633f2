package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

const oneServer = "/api/v1/upstreams/{name}"

// server returns what the API says of a server.
func (o *operators) server(t *testing.T, name, query string) (s admin.Server) {
	t.Helper()
	status, answer := o.ask(t, auditorToken, http.MethodGet, oneServer, "/api/v1/upstreams/"+name+query, "")
	if status != http.StatusOK || json.Unmarshal([]byte(answer), &s) != nil {
		t.Fatalf("%s: %d %s", name, status, answer)
	}
	return s
}

// act does something to a server, as an operator.
func (o *operators) act(t *testing.T, name, what string) (a admin.Acted) {
	t.Helper()
	status, answer := o.ask(t, operatorToken, http.MethodPost, oneServer+"/"+what, "/api/v1/upstreams/"+name+"/"+what, "")
	if status != http.StatusOK || json.Unmarshal([]byte(answer), &a) != nil {
		t.Fatalf("%s %s: %d %s", what, name, status, answer)
	}
	return a
}

// serversAsked asks the gateway of TestOperators for its servers, and does everything to them.
func serversAsked(t *testing.T, o *operators) {
	t.Helper()
	s := o.server(t, "up", "")
	if s.Upstream.State != "ready" || s.Tools.Total != 1 || len(s.Tools.Items) != 1 || s.Tools.Items[0].Name != "work" ||
		s.Tools.Items[0].Public != "up__work" ||
		s.Tools.Tokens == 0 || s.Tools.Items[0].Tokens != s.Tools.Tokens || s.Tools.Items[0].Short != s.Tools.Short ||
		s.Upstream.Tokens != s.Tools.Tokens {
		t.Errorf("up: %+v", s)
	}
	if n := len(s.Timeline); n < 2 || s.Timeline[0].State != "ready" || s.Timeline[n-1].State != "connecting" {
		t.Errorf("timeline: %+v", s.Timeline)
	}
	if len(s.Probe) != 2 || s.Probe[0].Method != "server/discover" || s.Probe[1].Method != "initialize" ||
		s.Probe[1].Found != "it speaks 2025-11-25" || s.Probe[1].Transport != "streamable" {
		t.Errorf("probe: %+v", s.Probe)
	}
	if !s.Capabilities.At("tools").IsObject() || s.Credentials != (admin.Credentials{Type: "none", Whose: "nobody",
		State: "none"}) || s.Pinning.Mode != "warn" || s.Pinning.Waiting != 1 {
		t.Errorf("up: %s %+v %+v", s.Capabilities, s.Credentials, s.Pinning)
	}
	down := o.server(t, "gone", "?sort=tokens&from=5&limit=1")
	if down.Timeline[0].State != "down" || down.Timeline[0].Code != "GH-UPSTREAM-DOWN" ||
		down.Timeline[0].Stage != "connect" || len(down.Probe) != 1 || down.Probe[0].Code != "GH-UPSTREAM-DOWN" ||
		down.Tools.Total != 0 {
		t.Errorf("gone: %+v %+v", down.Timeline, down.Probe)
	}
	if status, answer := o.ask(t, auditorToken, http.MethodGet, oneServer, "/api/v1/upstreams/none",
		""); status != http.StatusNotFound {
		t.Errorf("an unknown server: %d %s", status, answer)
	}

	if a := o.act(t, "up", "probe"); a.Failure != nil || len(a.Probe) != 2 || a.Upstream.Name != "up" {
		t.Errorf("probed: %+v", a)
	}
	if a := o.act(t, "gone", "probe"); a.Failure == nil || a.Failure.Code != "GH-UPSTREAM-DOWN" || len(a.Probe) != 1 {
		t.Errorf("gone is probed: %+v", a)
	}
	if a := o.act(t, "up", "reconnect"); !a.Changed || a.Failure != nil {
		t.Errorf("reconnected: %+v", a)
	}
	if !slices.ContainsFunc(o.server(t, "up", "").Timeline,
		func(c admin.Change) bool { return c.By == "acts" && c.Did == "reconnected" }) {
		t.Error("the timeline does not say who reconnected")
	}
	if a := o.act(t, "up", "disable"); !a.Changed || a.Upstream.State != "disabled" {
		t.Errorf("disabled: %+v", a)
	}
	if a := o.act(t, "up", "disable"); a.Changed {
		t.Error("it is disabled twice")
	}
	if s := o.server(t, "up", ""); s.Disabled == nil || s.Disabled.By != "acts" || s.Timeline[0].State != "disabled" ||
		s.Timeline[0].By != "acts" {
		t.Errorf("disabled: %+v %+v", s.Disabled, s.Timeline)
	}
	if status, answer := o.ask(t, operatorToken, http.MethodPost, oneServer+"/reconnect", "/api/v1/upstreams/up/reconnect",
		""); status != http.StatusConflict || !strings.Contains(answer, "enable it first") {
		t.Errorf("a disabled one is reconnected: %d %s", status, answer)
	}
	if a := o.act(t, "up", "enable"); !a.Changed {
		t.Errorf("enabled: %+v", a)
	}
	approved(t, o)
}

// approved approves what TestOperators has seen, by its digest.
func approved(t *testing.T, o *operators) {
	t.Helper()
	const path = "/api/v1/pins"
	seen := func(query string) (all []admin.Pin) {
		t.Helper()
		var answer struct{ Pins []admin.Pin }
		status, text := o.ask(t, auditorToken, http.MethodGet, path, path+query, "")
		if status != http.StatusOK || json.Unmarshal([]byte(text), &answer) != nil {
			t.Fatalf("%d %s", status, text)
		}
		return answer.Pins
	}
	ask := func(digest string) (int, string) {
		t.Helper()
		body, err := json.Marshal(admin.PinApproval{Pins: []admin.PinDigest{{Upstream: "up", List: "tools", Name: "work",
			Digest: digest}}})
		if err != nil {
			t.Fatal(err)
		}
		return o.ask(t, operatorToken, http.MethodPost, path+"/approve", path+"/approve", string(body))
	}
	waiting := seen("?upstream=up")
	for len(waiting) == 0 { // after it was enabled, its lists come soon
		waiting = seen("?upstream=up")
	}
	if len(seen("?upstream=gone")) != 0 || !strings.Contains(waiting[0].Diff, "work") {
		t.Errorf("waiting: %+v", waiting)
	}
	if status, answer := ask(waiting[0].Digest[:len(waiting[0].Digest)-1] + "x"); status != http.StatusConflict ||
		!strings.Contains(answer, "look at it again") {
		t.Errorf("another digest: %d %s", status, answer)
	}
	if status, answer := ask(waiting[0].Digest); status != http.StatusOK || !strings.Contains(answer, `"approved":1`) {
		t.Errorf("approved: %d %s", status, answer)
	}
	if len(seen("")) != 0 {
		t.Error("it still waits")
	}
}

// pausing is a tool that waits in each call that is to wait.
type pausing struct{ waits, running, finish chan struct{} }

func newPausing() pausing {
	return pausing{make(chan struct{}, 1), make(chan struct{}), make(chan struct{})}
}

func (p pausing) handle(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	select {
	case <-p.waits:
		p.running <- struct{}{}
		<-p.finish
	default:
	}
	return saying("done")(ctx, r)
}

// begin makes a call that runs until it is finished; its answer is sent then.
func (p pausing) begin(t *testing.T, session *sdk.ClientSession, tool string) chan string {
	t.Helper()
	answer := make(chan string, 1)
	p.waits <- struct{}{}
	go func() {
		got, err := callTool(t.Context(), session, tool)
		answer <- fmt.Sprint(got, err)
	}()
	<-p.running
	return answer
}

// TestDisabledServer: a server of either era that is disabled gets no new calls, and its tools
// disappear and come back, as clients are told. Calls under way go on; a reload changes nothing. When
// it is reconnected, calls end where they began.
func TestDisabledServer(t *testing.T) {
	for name, isStateless := range map[string]bool{stateful: false, stateless: true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := newPausing()
			site := newSite(t, isStateless, one("work", tool.handle))
			other := newSite(t, !isStateless, one("work", saying("other")))
			text := operatorsConfig + fmt.Sprintf("upstreams: [{name: other, url: %q}, {name: up, url: %q}]\n",
				other.url, site.url)
			c := startUnwatched(t, text)
			o := operatorsOf(t, c)
			session, heard := hearing(t, c.Gateway, name)
			eventually(t, "all tools", func() bool { return len(listTools(t, session)) == 2 })

			ran := tool.begin(t, session, "up__work")
			o.act(t, "up", "disable")
			<-heard
			refused := func() {
				t.Helper()
				_, err := callTool(t.Context(), session, "up__work")
				if wrong, ok := errors.AsType[*jsonrpc.Error](err); !ok ||
					mcp.Raw(wrong.Data).At("error_code").Text() != "GH-UPSTREAM-DISABLED" ||
					mcp.Raw(wrong.Data).At("executed").Text() != "no" {
					t.Errorf("a call to a disabled server: %v", err)
				}
				if got := listTools(t, session); !slices.Equal(got, []string{"other__work"}) {
					t.Errorf("the tools are %q", got)
				}
			}
			eventually(t, "its tools have gone", func() bool { return len(listTools(t, session)) == 1 })
			refused()
			if a := o.act(t, "up", "probe"); a.Failure != nil || a.Upstream.State != "disabled" {
				t.Errorf("a disabled server is probed: %+v", a)
			}
			c.reload(t, text+"shutdown_timeout: 20s\n")
			c.reload(t, strings.Replace(text, "{name: up,", "{name: up, timeout: {call: 50s},", 1))
			refused()
			close(tool.finish)
			if got := <-ran; got != "done<nil>" {
				t.Errorf("the call that ran: %s", got)
			}
			o.act(t, "up", "enable")
			eventually(t, "its tools are back", func() bool { return len(listTools(t, session)) == 2 })
			if got, err := callTool(t.Context(), session, "up__work"); err != nil || got != "done" {
				t.Errorf("got %q, %v", got, err)
			}

			tool.finish = make(chan struct{})
			before := site.sessions()
			ran = tool.begin(t, session, "up__work")
			if a := o.act(t, "up", "reconnect"); a.Failure != nil || len(a.Probe) == 0 {
				t.Errorf("reconnected: %+v", a)
			}
			if got, err := callTool(t.Context(), session, "up__work"); err != nil || got != "done" {
				t.Errorf("got %q, %v", got, err)
			}
			if now := site.sessions(); now == before && !isStateless {
				t.Error("no session was begun")
			}
			close(tool.finish)
			if got := <-ran; got != "done<nil>" {
				t.Errorf("the call that ran: %s", got)
			}
		})
	}
}

// TestApproved: what an operator approves is in the lock file and in force, and nothing else. A
// file that cannot be written stays as it is, and the answer says what to do.
func TestApproved(t *testing.T) {
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			site := newSite(t, revision == stateless, nil)
			site.describe("work", "Works.")
			site.describe("wipe", "Wipes.")
			file := emptyLock(t)
			c := startUnwatched(t,
				operatorsConfig+fmt.Sprintf("upstreams: [{name: up, url: %q}]\npinning: {mode: block, file: %q}\n", site.url, file))
			o := operatorsOf(t, c)
			session, heard := hearing(t, c.Gateway, revision)
			var answer struct{ Pins []admin.Pin }
			eventually(t, "both tools were seen", func() bool {
				_, text := o.ask(t, viewerToken, http.MethodGet, "/api/v1/pins", "/api/v1/pins", "")
				return json.Unmarshal([]byte(text), &answer) == nil && len(answer.Pins) == 2
			})
			if got := listTools(t, session); len(got) != 0 {
				t.Fatalf("the tools are %q", got)
			}
			work := answer.Pins[1]
			if work.Name != "work" || !strings.Contains(work.Diff, "+description:\n+  Works.\n") {
				t.Errorf("the diff reads %q", work.Diff)
			}
			body, err := json.Marshal(admin.PinApproval{Pins: []admin.PinDigest{{Upstream: "up", List: "tools", Name: "work",
				Digest: work.Digest}}})
			if err != nil {
				t.Fatal(err)
			}
			const path = "/api/v1/pins/approve"
			dir := filepath.Dir(file)
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
			if status, text := o.ask(t, operatorToken, http.MethodPost, path, path,
				string(body)); status != http.StatusConflict || !strings.Contains(text, "nothing was approved") {
				t.Errorf("without the file: %d %s", status, text)
			}
			if err := os.Rename(dir+".away", dir); err != nil {
				t.Fatal(err)
			}
			if status, text := o.ask(t, operatorToken, http.MethodPost, path, path, string(body)); status != http.StatusOK ||
				!strings.Contains(text, file) {
				t.Errorf("%d %s", status, text)
			}
			<-heard
			eventually(t, "it is in force", func() bool { return slices.Equal(listTools(t, session), []string{"up__work"}) })
			written, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lock, err := pin.Read(written)
			if err != nil || len(lock["up"]) != 1 || lock["up"][0].Name != "work" {
				t.Errorf("the lock file: %v %v", lock, err)
			}
			if status, text := o.ask(t, operatorToken, http.MethodPost, path, path,
				string(body)); status != http.StatusConflict || !strings.Contains(text, "does not wait for approval") {
				t.Errorf("once more: %d %s", status, text)
			}
		})
	}
}
