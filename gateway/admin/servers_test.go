package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestServers: what can be asked of a server and done to it, by whom, and what is recorded.
func TestServers(t *testing.T) {
	cfg := Config{Tokens: []Token{{"v", RoleViewer, good}, {"o", RoleOperator, good + "1"},
		{"a", RoleAuditor, good + "2"}}}
	const viewer, operator, auditor = "Bearer " + "0123456789abcdefghijklmnopqrstuv",
		"Bearer 0123456789abcdefghijklmnopqrstuv1", "Bearer 0123456789abcdefghijklmnopqrstuv2"
	for _, tt := range []struct {
		name, token, method, path, body string
		status                          int
		says, recorded                  string
	}{
		{"unknown", viewer, "GET", "/api/v1/upstreams/none", "", 404, "GH-ADMIN-NOT-FOUND", ""},
		{"no number", viewer, "GET", "/api/v1/upstreams/crm?from=x", "", 400, "from: want a number from 0", ""},
		{"too many", viewer, "GET", "/api/v1/upstreams/crm?limit=1001", "", 400, "limit: want a number from 1 to 1000", ""},
		{"no order", viewer, "GET", "/api/v1/upstreams/crm?sort=size", "", 400, "sort: want name or tokens", ""},
		{"viewer disables", viewer, "POST", "/api/v1/upstreams/crm/disable", "", 403, "GH-ADMIN-ROLE", "refused"},
		{"auditor probes", auditor, "POST", "/api/v1/upstreams/crm/probe", "", 403, "GH-ADMIN-ROLE", "refused"},
		{"operator disables", operator, "POST", "/api/v1/upstreams/crm/disable", "", 200, `"changed":true`,
			"upstream disabled"},
		{"operator enables", operator, "POST", "/api/v1/upstreams/crm/enable", "", 200, `"changed":true`, "upstream enabled"},
		{"operator reconnects", operator, "POST", "/api/v1/upstreams/crm/reconnect", "", 200, `"changed":true`,
			"upstream reconnected"},
		{"operator probes", operator, "POST", "/api/v1/upstreams/crm/probe", "", 200, `"changed":true`, "upstream probed"},
		{"nothing changes", operator, "POST", "/api/v1/upstreams/other/disable", "", 200, `"changed":false`, ""},
		{"not now", operator, "POST", "/api/v1/upstreams/busy/disable", "", 409, "not now", ""},
		{"viewer approves", viewer, "POST", "/api/v1/pins/approve", `{"pins":[{}]}`, 403, "GH-ADMIN-ROLE", "refused"},
		{"nothing to approve", operator, "POST", "/api/v1/pins/approve", `{}`, 400, "pins: want 1 to 500", ""},
		{"approved meanwhile", operator, "POST", "/api/v1/pins/approve",
			`{"pins":[{"upstream":"crm","list":"tools","name":"x","digest":"sha256:0"}]}`, 409, "not now", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, records := newTest(t, cfg)
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
			r.Header.Set("Authorization", tt.token)
			a.ServeHTTP(w, r)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.says)
			}
			var event string
			for _, one := range *records {
				event = one.Event
				if one.Event != "refused" && (one.User != "o" || one.Upstream != "crm") {
					t.Errorf("recorded: %+v", one)
				}
			}
			if event != tt.recorded || len(*records) > 1 || tt.method == http.MethodGet && len(*records) > 0 {
				t.Errorf("recorded: %q, want %q", event, tt.recorded)
			}
		})
	}
}
