package auth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// In mode none everybody is one user.
func TestModeNoneCaller(t *testing.T) {
	a, err := auth.New(auth.Config{}, auth.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	var users []string
	h := a.Require(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c, ok := mcp.CallerFrom(r.Context())
		if !ok {
			t.Error("no caller in the context")
		}
		users = append(users, c.User())
	}))
	for range 2 {
		req := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		h.ServeHTTP(httptest.NewRecorder(), req)
		if _, ok := mcp.CallerFrom(req.Context()); ok {
			t.Error("the inbound request was changed")
		}
	}
	if want := (mcp.Caller{}).User(); users[0] != want || users[1] != want {
		t.Errorf("got users %v, want %s for both", users, want)
	}
}
