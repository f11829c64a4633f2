//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// elsewhere is a resource that the issuer knows but that is not the gateway.
const elsewhere = "http://127.0.0.1:9/mcp"

// maxAnswer bounds one answer in bytes.
const maxAnswer = 1 << 20

// site is a gateway that requires access tokens, and their issuer.
type site struct {
	issuer     string   // issuer identifier
	url        string   // of the gateway's endpoint: the resource of the tokens
	everything upstream // engineering has all but one of its tools, support has none
	python     upstream // engineering has one of its tools, support has all
}

// startSite starts the issuer, and a gateway with one HTTP upstream of each kind.
func (l *lab) startSite(t *testing.T, upstreams []upstream) site {
	t.Helper()
	var s site
	for _, u := range upstreams {
		switch {
		case u.url != "" && u.kind == everything:
			s.everything = u
		case u.url != "" && u.kind == python:
			s.python = u
		}
	}
	var addrs [2]string
	for i := range addrs {
		addrs[i] = mcptest.LoopbackAddress(t)
	}
	s.url, s.issuer = rig.EndpointAt(addrs[0]), "http://"+addrs[1]
	issuer := exec.Command(l.node.Binary, "issuer.mjs", addrs[1], s.url, elsewhere)
	issuer.Dir = l.node.Dir
	l.start(t, addrs[1], issuer)

	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	g, err := rig.StartGateway(ctx, rig.GatewayConfig{
		Binary: l.gateway,
		Dir:    t.TempDir(),
		Listen: addrs[0],
		Auth:   fmt.Sprintf(`{mode: oauth, issuers: [{url: "%s", require_typ: [at+jwt]}], required_scopes: [mcp]}`, s.issuer),
		Sections: upstreamsSection(t, []upstream{s.everything, s.python}) + fmt.Sprintf(`
policy:
  default: deny
  rules:
    - {name: robots, who: {groups: [robots]}, allow: ["tools:*"]}
    - {name: engineering, who: {groups: [engineering]}, allow: ["tools:%[1]s/*", "tools:%[2]s/add"]}
    - {name: support, who: {groups: [support]}, allow: ["tools:%[2]s/*"]}
    - {name: nobody, deny: ["tools:%[1]s/get-env"]}
`, s.everything.name, s.python.name),
		Token: s.token(t, 0, s.url, "mcp"),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.own(t, "the gateway", g.Process)
	if err := g.WaitTools(ctx, s.everything.tool("echo"), s.python.tool("add")); err != nil {
		t.Fatal(err)
	}
	return s
}

// tryRefusals sends tokens that the gateway must refuse.
func (s site) tryRefusals(t *testing.T) {
	for _, tt := range []struct {
		title, token, query string
		status              int
		challenge           []string // parts of it
	}{
		{"a good token", s.token(t, 0, s.url, "mcp"), "", http.StatusOK, nil},
		{"no token", "", "", http.StatusUnauthorized, []string{"resource_metadata=", `scope="mcp"`}},
		{"a token in the query", "", "?access_token=" + s.token(t, 0, s.url, "mcp"), http.StatusUnauthorized,
			[]string{"resource_metadata="}},
		{"an expired one", s.token(t, time.Hour, s.url, "mcp"), "", http.StatusUnauthorized,
			[]string{`error="invalid_token"`, "resource_metadata="}},
		{"one for another audience", s.token(t, 0, elsewhere, "mcp"), "", http.StatusUnauthorized,
			[]string{`error="invalid_token"`, "resource_metadata="}},
		{"one without the scope", s.token(t, 0, s.url, ""), "", http.StatusForbidden,
			[]string{`error="insufficient_scope"`, `scope="mcp"`, "resource_metadata="}},
	} {
		t.Run(tt.title, func(t *testing.T) {
			const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + stateful +
				`","capabilities":{},"clientInfo":{"name":"interop","version":"1"}}}`
			header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			if tt.token != "" {
				header.Set("Authorization", "Bearer "+tt.token)
			}
			status, answer, body := post(t, s.url+tt.query, header, initialize)
			if status != tt.status {
				t.Fatalf("status %d, want %d: %s", status, tt.status, body)
			}
			challenge := answer.Get("WWW-Authenticate")
			for _, part := range tt.challenge {
				if !strings.HasPrefix(challenge, "Bearer ") || !strings.Contains(challenge, part) {
					t.Errorf("the challenge is %s, want %s in it", challenge, part)
				}
			}
			if tt.token == "" && strings.Contains(challenge, "error=") {
				t.Errorf("the challenge is %s, but there was no token that could be wrong", challenge)
			}
		})
	}
}

// token gets a token of this age for the robot.
func (s site) token(t *testing.T, age time.Duration, resource, scope string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}
	if scope != "" {
		form.Set("scope", scope)
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"},
		"X-Age":         {strconv.Itoa(int(age.Seconds()))},
		"Authorization": {"Basic cm9ib3Q6cm9ib3Q="}} // robot:robot
	status, _, body := post(t, s.issuer+"/token", header, form.Encode())
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Token == "" {
		t.Fatalf("the issuer answered %d: %s", status, body)
	}
	return answer.Token
}

func post(t *testing.T, url string, header http.Header, body string) (int, http.Header, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, data
}
