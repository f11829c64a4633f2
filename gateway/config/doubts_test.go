package config

import (
	"strings"
	"testing"
)

// TestDoubts: what nobody can be, and a server that is the gateway itself, are warnings.
func TestDoubts(t *testing.T) {
	t.Setenv("A_SECRET", "hunter2")
	const secret = "- {name: a, url: \"https://a.example\", headers: {X-Key: \"${env:A_SECRET}\"}}\n"
	const auth = "auth: {mode: oauth, issuers: [{url: \"https://login.example.com\"}]}\npublic_url: https://mcp.example.com/mcp\n"
	for _, tt := range []struct{ name, text, want string }{
		{"a rule for some",
			"policy: {rules: [{name: r, who: {groups: [staff]}, deny: [\"tools:*\"]}]}\nupstreams: [{name: a, url: \"https://a.example\"}]\n",
			"c.yaml:1: policy.rules[0] (r): who: nobody is in the group staff"},
		{"a limit for some",
			"limits: [{name: l, who: {users: [bob]}, rate: 1/s}]\nupstreams: [{name: a, url: \"https://a.example\"}]\n",
			"limits[0] (l): who: nobody is the user bob"},
		{"a hook for some",
			"hooks: [{name: h, who: {users: [bob]}, refuse: {secrets: [aws_key]}}]\nupstreams: [{name: a, url: \"https://a.example\"}]\n", "hooks[0] (h): who: nobody is the user bob"},
		{"a view for some",
			"views: [{name: v, who: {users: [bob]}, show: [\"tools:*\"]}]\nupstreams: [{name: a, url: \"https://a.example\"}]\n",
			"views[0] (v): who: nobody is the user bob"},
		{"with authentication",
			auth + "policy: {rules: [{name: r, who: {groups: [staff]}, allow: [\"tools:*\"]}]}\nupstreams: [{name: a, url: \"https://a.example\"}]\n", ""},
		{"itself by its public URL",
			auth + "policy: {default: allow}\nupstreams: [{name: a, url: \"https://mcp.example.com/mcp\"}]\n", "upstreams[0] (a): url: is this gateway itself"},
		{"itself by its listener", "listen: \"127.0.0.1:8123\"\nupstreams: [{name: a, url: \"http://localhost:8123/mcp\"}]\n",
			"upstreams[0] (a): url: is this gateway itself"},
		{"one of its views",
			"views: [{name: v, show: [\"tools:*\"]}]\nupstreams: [{name: a, url: \"http://127.0.0.1:8080/mcp/v\"}]\n",
			"upstreams[0] (a): url: is this gateway itself"},
		{"its events", "upstreams: [{name: a, url: \"http://127.0.0.1:8080/sse\"}]\n",
			"upstreams[0] (a): url: is this gateway itself"},
		{"another port", "upstreams: [{name: a, url: \"http://127.0.0.1:8081/mcp\"}]\n", ""},
		{"another path", "upstreams: [{name: a, url: \"http://127.0.0.1:8080/other\"}]\n", ""},
		{"a program beside a secret", "upstreams:\n- {name: p, command: [p]}\n" + secret,
			"c.yaml:2: upstreams[0] (p): command: without sandbox, this program may find upstreams[1].headers.X-Key in"},
		{"a program with its own secret", "upstreams: [{name: p, command: [p], env: {TOKEN: \"${env:A_SECRET}\"}}]\n", ""},
		{"a program in a box", "upstreams:\n- {name: p, command: [p], sandbox: {}}\n" + secret, ""},
		{"not enabled", "upstreams: [{name: a, enabled: false, url: \"http://127.0.0.1:8080/mcp\"}]\n", ""},
	} {
		_, warnings, err := Parse("c.yaml", []byte(tt.text))
		got := (&Error{Problems: warnings}).Error()
		if err != nil || !strings.Contains(got, tt.want) || (tt.want == "") != (len(warnings) == 0) {
			t.Errorf("%s: %v, %q, want %q", tt.name, err, got, tt.want)
		}
	}
}
