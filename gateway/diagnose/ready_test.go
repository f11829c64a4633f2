package diagnose

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
)

// TestReadiness: a replica is ready once its upstreams and an issuer have answered, stays so when they
// do not answer any more, and is not ready when it stops.
func TestReadiness(t *testing.T) {
	now := Serving{Upstreams: []Upstream{{Name: "hidden"}}, Issuers: []auth.Status{{Issuer: "https://login.example.com"}}}
	d := NewReadiness(nil, func() Serving { return now })
	for _, step := range []struct {
		name string
		do   func()
		want []string // what the answer has; none: ready
	}{
		{"just started", func() {}, []string{"waits for its upstreams", "no issuer of tokens"}},
		{"upstreams have answered", func() { now.Heard = true }, []string{"no issuer of tokens"}},
		{"an issuer has", func() { now.Issuers[0].Fetched = time.Unix(1, 0) }, nil},
		{"upstreams are new", func() { now.Heard = false }, nil},
		{"issuers are new", func() { now.Issuers[0].Fetched = time.Time{} }, nil},
		{"it stops", func() { now.Stopping = true }, []string{`"reasons":["the gateway is stopping"]`}},
	} {
		step.do()
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil)) // from another machine
		text := w.Body.String()
		if want := len(step.want) == 0; (w.Code == http.StatusOK) != want || strings.Contains(text, `"ready":true`) != want ||
			strings.Contains(text, "hidden") {
			t.Errorf("%s: %d %s", step.name, w.Code, text)
		}
		for _, want := range step.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s lacks %q", step.name, text, want)
			}
		}
	}
}

// TestSeveralVersions: while replicas of several versions share a store, a replica is ready and warns.
func TestSeveralVersions(t *testing.T) {
	now := Serving{Heard: true, Version: "v2", Replicas: []Replica{{Name: "a", Version: "v2"}, {Name: "b", Version: "v1"}}}
	d := NewReadiness(nil, func() Serving { return now })
	server := httptest.NewServer(d)
	defer server.Close()
	ask := func() (status int, body string) {
		t.Helper()
		answer, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if status, body := ask(); status != http.StatusOK || !strings.Contains(body, "share this Redis: v1, v2; bring") {
		t.Errorf("with two versions: %d %s", status, body)
	}
	now.Replicas = now.Replicas[:1]
	if status, body := ask(); status != http.StatusOK || strings.Contains(body, "warnings") {
		t.Errorf("with one version: %d %s", status, body)
	}
}
