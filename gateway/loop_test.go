package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestLoop: a gateway refuses its own requests, and operators are told why a server that is the
// gateway itself is down, by which name it may be known.
func TestLoop(t *testing.T) {
	c := onListener(t)
	url := "http://" + c.listener.Addr().String() + "/mcp"
	// The configuration does not tell that this is the gateway, as behind a balancer.
	text := "admin: {listen: \"127.0.0.1:0\", api: {loopback: viewer}}\n" +
		"upstreams: [{name: up, url: %q}, {name: self, url: %q}]\n"
	c.write(t, fmt.Sprintf(text, newSite(t, true, one("work", saying("x"))).url, url))
	c.run(t)
	if tools := c.graph().catalog.Tools("self"); len(tools) != 0 {
		t.Errorf("its own tools are listed: %v", tools)
	}
	_, found := ask(t, c.AdminAddr().String(), "/api/v1/findings")
	if !strings.Contains(found, `"subject":"self"`) || !strings.Contains(found, "this is the gateway itself") {
		t.Errorf("the findings are %s", found)
	}
	for via, want := range map[string]int{
		"1.1 " + c.hop:                     http.StatusLoopDetected,
		"1.0 proxy, 1.1 " + c.hop + " (x)": http.StatusLoopDetected,
		"1.1 gatehouse-other":              http.StatusOK,
	} {
		r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Via": {via}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Via %s: %d, want %d", via, resp.StatusCode, want)
		}
	}
	if a, b := hopOf([]byte("secret")), hopOf([]byte("secret")); a != b || a == hopOf([]byte("another")) ||
		strings.Contains(a, "secret") {
		t.Errorf("replicas are known as %s and %s", a, b)
	}
}

// TestFindingsOfHooks: a hook that fails and refuses everything is found.
func TestFindingsOfHooks(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	c := startUnwatched(t,
		fmt.Sprintf("admin: {listen: \"127.0.0.1:0\", api: {loopback: viewer}}\nupstreams: [{name: up, url: %q}]\n"+
			"hooks: [{name: dlp, http: {url: \"http://127.0.0.1:1\"}}]\npolicy: {default: allow, rules: [{name: out, who: {users: [bob]}, deny: [\"*:*\"]}]}\n", site.url))
	session := connect(t, c.Gateway, stateless)
	if _, err := callTool(t.Context(), session, "up__work"); err == nil {
		t.Error("the call passes without the hook")
	}
	_, found := ask(t, c.AdminAddr().String(), "/api/v1/findings")
	for _, want := range []string{"The hook dlp fails: every call that it looks at is refused.",
		"nobody is the user bob"} {
		if !strings.Contains(found, want) {
			t.Errorf("the findings lack %q: %s", want, found)
		}
	}
}
