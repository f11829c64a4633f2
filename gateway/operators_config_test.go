package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
)

// TestConfigurationOfOperators: operators see the file, what holds and its history without secrets,
// learn what a text would change, and save it where the file allows that.
func TestConfigurationOfOperators(t *testing.T) {
	t.Setenv("GH_TEST_TOKEN", "of-the-environment-0123")
	const secrets = "headers: {X-Team: sales, X-Api-Key: literal-secret, Authorization: \"Bearer ${env:GH_TEST_TOKEN}\"} # public"
	text := "# ours\n" + operatorsConfig +
		"  console: {save: true}\nupstreams:\n- name: crm\n  url: http://127.0.0.1:1/mcp\n  " + secrets + "\n"
	c := startUnwatched(t, text)
	text = "listen: 127.0.0.1:0\n" + text // which write puts there
	o := operatorsOf(t, c)
	ask := func(token, method, path string, body, to any) int {
		t.Helper()
		sent, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		status, answer := o.ask(t, token, method, "/api/v1/config/"+path, "/api/v1/config/"+path, string(sent))
		for _, secret := range []string{"literal-secret", "of-the-environment", viewerToken, operatorToken} {
			if strings.Contains(answer, secret) {
				t.Errorf("%s %s has a secret: %s", method, path, answer)
			}
		}
		if err := json.Unmarshal([]byte(answer), to); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		return status
	}
	var file admin.ConfigText
	if status := ask(viewerToken, http.MethodGet, "text", nil, &file); status != http.StatusOK || !file.Masked ||
		!file.InForce || !file.Save || file.File != c.file ||
		!strings.Contains(file.Text, "# ours\n") || !strings.Contains(file.Text,
		"X-Team: sales, X-Api-Key: <secret>, Authorization: \"Bearer ${env:GH_TEST_TOKEN}\"") {
		t.Errorf("%d %+v", status, file)
	}
	var effective admin.EffectiveConfig
	if status := ask(viewerToken, http.MethodGet, "effective", nil, &effective); status != http.StatusOK ||
		effective.Revision != file.Revision ||
		!strings.Contains(effective.Text, "call: 1m # default") || !strings.Contains(effective.Text, "X-Api-Key: <secret>") ||
		strings.Contains(effective.Text, "# ours") {
		t.Errorf("%d %+v", status, effective)
	}

	// A text with a mask, with a problem, for a revision that is gone: nothing is written.
	var bad admin.BadDraft
	if status := ask(operatorToken, http.MethodPost, "save", admin.ConfigDraft{Text: file.Text, Revision: file.Revision},
		&bad); status != http.StatusUnprocessableEntity || len(bad.Problems) != 1 || bad.Problems[0].Line != 7 {
		t.Errorf("a mask: %d %+v", status, bad)
	}
	// Without secrets of the file, as the console shows how to write it.
	next := strings.Replace(text, "X-Api-Key: literal-secret, ", "", 1)
	if status := ask(operatorToken, http.MethodPost, "save",
		admin.ConfigDraft{Text: next + "no_such_key: 1\n", Revision: file.Revision},
		&bad); status != http.StatusUnprocessableEntity || len(bad.Problems) != 1 ||
		bad.Problems[0].Line != strings.Count(next, "\n")+1 {
		t.Errorf("a problem: %d %+v", status, bad)
	}
	var refused struct {
		Error struct{ Code, Message string }
	}
	if status := ask(operatorToken, http.MethodPost, "save", admin.ConfigDraft{Text: next, Revision: "000000000000"},
		&refused); status != http.StatusConflict || !strings.Contains(refused.Error.Message, "has changed since") {
		t.Errorf("an old revision: %d %+v", status, refused)
	}
	if status := ask(viewerToken, http.MethodPost, "save", admin.ConfigDraft{Text: next, Revision: file.Revision},
		&refused); status != http.StatusForbidden {
		t.Errorf("a viewer saves: %d", status)
	}
	if now, err := os.ReadFile(c.file); err != nil || string(now) != text || c.ReloadStatus().Err != nil {
		t.Fatalf("%v %s", err, now)
	}

	restart := "shutdown_timeout: 1s\n" + strings.Replace(next, "127.0.0.1:0", "127.0.0.1:1", 1)
	added := next + "- {name: wiki, url: \"http://127.0.0.1:1/${env:GH_TEST_TOKEN}\"}\n"
	for _, tt := range []struct {
		token, text   string
		changed, note string
		problem       string
		waits         bool // for a restart
	}{
		{operatorToken, added, "upstreams;wiki;crm;", "", "", false},
		{viewerToken, added, "upstreams;wiki;crm;", "not looked up", "", false},
		{operatorToken, strings.Replace(added, "GH_TEST_TOKEN}\"", "GH_TEST_NONE}\"", 1), ";;;", "", "is not set", false},
		{viewerToken, strings.Replace(added, "GH_TEST_TOKEN}\"", "GH_TEST_NONE}\"", 1), "upstreams;wiki;crm;",
			"not looked up", "", false},
		{viewerToken, restart, "upstreams,shutdown_timeout;;crm;", "not looked up", "", true},
		{operatorToken, restart, "upstreams,shutdown_timeout;;crm;", "", "", true},
		{viewerToken, file.Text, ";;;", "", "stands in place of a secret", false},
	} {
		var checked admin.ConfigCheck
		status := ask(tt.token, http.MethodPost, "check", admin.ConfigDraft{Text: tt.text}, &checked)
		changed := strings.Join(checked.Changed, ",") + ";" + strings.Join(checked.Added, ",") + ";" +
			strings.Join(checked.Replaced, ",") + ";" + strings.Join(checked.Removed, ",")
		problem := ""
		if len(checked.Problems) > 0 {
			problem = checked.Problems[0].Message
		}
		waits := slices.ContainsFunc(checked.Warnings,
			func(w admin.Problem) bool { return strings.HasPrefix(w.Message, "listen: waits for a restart") })
		if status != http.StatusOK || changed != tt.changed || !strings.Contains(strings.Join(checked.Notes, " "), tt.note) ||
			(problem != "") != (tt.problem != "") || !strings.Contains(problem, tt.problem) || waits != tt.waits {
			t.Errorf("%d %s %+v, want %+v", status, changed, checked, tt)
		}
	}

	var saved admin.Reload
	if status := ask(operatorToken, http.MethodPost, "save", admin.ConfigDraft{Text: added, Revision: file.Revision},
		&saved); status != http.StatusOK || !saved.Applied || saved.Revision == file.Revision {
		t.Fatalf("%d %+v", status, saved)
	}
	if now, err := os.ReadFile(c.file); err != nil || string(now) != added || len(c.graph().cfg.Upstreams) != 2 ||
		c.Gateway.file.Changed() || c.Gateway.file.Changed() {
		t.Errorf("%v %s", err, now)
	}
	added = strings.TrimPrefix(added, "listen: 127.0.0.1:0\n")
	c.write(t, strings.Replace(added, "save: true", "save: false", 1)+"no_such_key: 1\n")
	_ = c.Reload() // refused
	c.write(t, strings.Replace(added, "save: true", "save: false", 1))
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if status := ask(operatorToken, http.MethodPost, "save",
		admin.ConfigDraft{Text: added, Revision: c.ReloadStatus().Revision}, &refused); status != http.StatusForbidden ||
		!strings.Contains(refused.Error.Message, "admin.console.save: true") {
		t.Errorf("saving is off: %d %+v", status, refused)
	}
	// Who may not save does not learn what there is on this machine.
	for _, blind := range []string{"env:GH_TEST_NONE", "file:/no/such/file"} {
		var checked admin.ConfigCheck
		if ask(operatorToken, http.MethodPost, "check",
			admin.ConfigDraft{Text: "listen: 127.0.0.1:0\n" + added + "- {name: probe, url: \"http://127.0.0.1:1/${" + blind +
				"}\"}\n"}, &checked); len(checked.Problems) != 0 || len(checked.Notes) == 0 {
			t.Errorf("%s is looked up: %+v", blind, checked)
		}
	}
	var history struct{ History []admin.ConfigChange }
	ask(viewerToken, http.MethodGet, "history", nil, &history)
	all := history.History
	if len(all) != 4 || !all[3].Applied || all[3].Diff != "" || !all[2].Applied || all[2].Revision != saved.Revision ||
		!strings.Contains(all[2].Diff, "\n+- {name: wiki") ||
		all[1].Applied || len(all[1].Problems) != 1 || all[1].Problems[0].Line == 0 ||
		!strings.Contains(all[0].Diff, "-no_such_key: 1") || strings.Join(all[0].Changed, ",") != "admin" {
		t.Errorf("%+v", all)
	}
}

// TestConfigurationWithoutAPI: the console shows what holds, and the history, if nothing else is served.
func TestConfigurationWithoutAPI(t *testing.T) {
	c := startUnwatched(t,
		"admin: {listen: 127.0.0.1:0, console: {loopback: viewer}}\nupstreams: [{name: crm, url: \"http://127.0.0.1:1/mcp\"}]\n")
	for page, want := range map[string]string{"": "# default", "?show=file": "loopback: viewer",
		"?show=history": "applied"} {
		r, err := http.Get("http://" + c.AdminAddr().String() + "/console/configuration" + page)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(text), want) ||
			strings.Contains(string(text), "has no configuration file") {
			t.Errorf("%s: %d %v %s", page, r.StatusCode, err, text)
		}
	}
}

// TestSetupOfOperators: what clients have becomes YAML without secrets, and its servers are tried as
// far as operators could configure them.
func TestSetupOfOperators(t *testing.T) {
	site := newSite(t, false, one("work", saying("x")))
	c := startUnwatched(t, operatorsConfig+"  console: {loopback: viewer, save: true}\nupstreams:\n- {name: up, url: "+
		site.url+"}\n")
	o := operatorsOf(t, c)
	ask := func(token, method, path string, body, to any) int {
		t.Helper()
		sent, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		status, answer := o.ask(t, token, method, path, path, string(sent))
		if strings.Contains(answer, "secret-value") {
			t.Errorf("%s has a secret: %s", path, answer)
		}
		if err := json.Unmarshal([]byte(answer), to); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		return status
	}
	const path, probe = "/api/v1/setup", "/api/v1/setup/probe"
	var clients admin.SetupClients
	if status := ask(viewerToken, http.MethodGet, path, nil, &clients); status != http.StatusOK ||
		clients.Endpoint == "" || len(clients.Clients) != 16 || !strings.Contains(clients.Clients[0].Text, clients.Endpoint) {
		t.Errorf("%d %+v", status, clients)
	}
	pasted := admin.SetupText{Text: `{"mcpServers": {"up": {"url": "` + site.url +
		`", "headers": {"Authorization": "Bearer secret-value"}}, "gone": {"command": "/no/such/program", "env": {"A": "b"}}}}`}
	var refused struct{ Error struct{ Code string } }
	if status := ask(viewerToken, http.MethodPost, path, pasted, &refused); status != http.StatusForbidden {
		t.Errorf("a viewer: %d", status)
	}
	var bad admin.BadDraft
	if status := ask(operatorToken, http.MethodPost, path, admin.SetupText{Text: "{}"},
		&bad); status != http.StatusUnprocessableEntity || len(bad.Problems) != 1 {
		t.Errorf("no servers: %d %+v", status, bad)
	}
	var made admin.SetupDraft
	if status := ask(operatorToken, http.MethodPost, path, pasted, &made); status != http.StatusOK ||
		len(made.Servers) != 2 || made.Servers[0].Name != "up-2" || len(made.Variables) != 1 {
		t.Fatalf("%d %+v", status, made)
	}
	if _, _, err := config.Parse("c.yaml", []byte(strings.ReplaceAll(made.Config, "${env:UP_TOKEN}", "x"))); err != nil {
		t.Errorf("%v\n%s", err, made.Config)
	}
	if !strings.Contains(made.Merged, "url: "+site.url+"}\n- name: up-2\n") || made.Revision != c.ReloadStatus().Revision {
		t.Errorf("merged: %s", made.Merged)
	}
	values := map[string]string{made.Variables[0].Name: "secret-value"}

	var found admin.Probed
	if status := ask(operatorToken, http.MethodPost, probe, admin.Attempt{Config: made.Config, Values: values},
		&found); status != http.StatusOK || len(found.Servers) != 2 ||
		found.Servers[0].State != "up" || found.Servers[0].Tools != 1 || found.Servers[1].State != "down" ||
		found.Servers[1].Error == "" {
		t.Errorf("%d %+v", status, found)
	}
	if status := ask(operatorToken, http.MethodPost, probe, admin.Attempt{Text: pasted.Text, Server: "up-2"},
		&found); status != http.StatusOK || len(found.Servers) != 1 || found.Servers[0].State != "up" {
		t.Errorf("pasted: %d %+v", status, found)
	}
	if status := ask(operatorToken, http.MethodPost, probe, admin.Attempt{Config: made.Config},
		&bad); status != http.StatusUnprocessableEntity || !strings.Contains(bad.Problems[0].Message, "UP_TOKEN") {
		t.Errorf("without a value: %d %+v", status, bad)
	}

	c.reload(t, operatorsConfig+"  console: {loopback: viewer}\nupstreams:\n- {name: up, url: "+site.url+"}\n")
	t.Setenv("UP_TOKEN", "of-the-environment")
	for server, want := range map[string]string{"gone": "to try a program needs admin.console.save",
		"up": "${env:UP_TOKEN}: to read it", "none": "there is no server to try"} {
		bad = admin.BadDraft{}
		if status := ask(operatorToken, http.MethodPost, probe, admin.Attempt{Config: made.Config, Server: server},
			&bad); status != http.StatusUnprocessableEntity || len(bad.Problems) != 1 ||
			!strings.Contains(bad.Problems[0].Message, want) {
			t.Errorf("%s: %d %+v", server, status, bad)
		}
	}
	if status := ask(operatorToken, http.MethodPost, probe,
		admin.Attempt{Config: made.Config, Server: "up", Values: values}, &found); status != http.StatusOK ||
		len(found.Servers) != 1 || found.Servers[0].State != "up" {
		t.Errorf("%d %+v", status, found)
	}
}
