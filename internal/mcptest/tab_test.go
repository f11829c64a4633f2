package mcptest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestFill: what somebody writes into a field arrives.
func TestFill(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.Method == http.MethodPost {
			fmt.Fprintf(w, "<p>Hello %s</p>", r.PostFormValue("user"))
			return
		}
		fmt.Fprint(w, `<form method="post" action="/"><input name="user" value="nobody"><button>Go on</button></form>`)
	}))
	defer s.Close()
	tab := mcptest.NewTab(t, "ada")
	page := tab.Open(t.Context(), s.URL, "")
	if !page.Has("user") || page.Has("password") {
		t.Errorf("the page is %s", page.HTML)
	}
	page.Fill(t, "user", "ada")
	if page = tab.Press(t.Context(), page, "Go on", ""); page.Text != "Hello ada" || page.Has("user") {
		t.Errorf("then it is %s", page)
	}
}
