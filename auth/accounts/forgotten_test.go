package accounts

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
)

// TestForgottenAtTokenEndpoint: an authorization server that does not know the gateway any more when it
// gets the code gets another registration with the next sign-in.
func TestForgottenAtTokenEndpoint(t *testing.T) {
	w := newWorld(t)
	way := w.beginAs(t, alice, "browser")
	w.Forget()
	if _, err := w.endAs(w.visit(t, way.URL), alice, "browser"); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
	way = w.beginAs(t, alice, "browser")
	if _, err := w.endAs(w.visit(t, way.URL), alice, "browser"); err != nil || len(w.Registered()) != 2 {
		t.Errorf("%v after %d registrations", err, len(w.Registered()))
	}
}

// TestForgottenAtSignInPage: an authorization server that shows a page with an error sends nobody back.
// Who begins again gets there with another registration.
func TestForgottenAtSignInPage(t *testing.T) {
	w := newWorld(t)
	w.beginAs(t, alice, "browser")
	w.Forget()
	way := w.beginAs(t, alice, "browser")
	if len(w.Registered()) != 2 {
		t.Fatalf("%d registrations", len(w.Registered()))
	}
	e, err := w.endAs(w.visit(t, way.URL), alice, "browser")
	if err != nil || e.grant.ClientID != "registered-2" {
		t.Errorf("%+v %v", e, err)
	}
	asked := w.Forms()[0]
	if asked.Get("grant_type") != "authorization_code" || asked.Get("client_id") != "registered-1" ||
		asked.Get("code") == "" {
		t.Errorf("asked with %v", asked)
	}
}

// TestNotForgotten: a registration that is known is kept, and the authorization server is hardly asked.
func TestNotForgotten(t *testing.T) {
	for name, tt := range map[string]struct {
		again []vault.Owner // who begins, one after the other
		end   func(t *testing.T, w *world, way way)
		asked int
	}{
		"who begins several times": {[]vault.Owner{alice, alice, alice, alice}, nil, 1},
		"several users":            {[]vault.Owner{alice, mallory}, nil, 0},
		// both codes
		"who has come back": {[]vault.Owner{alice, alice},
			func(t *testing.T, w *world, way way) { _, _ = w.endAs(w.visit(t, way.URL), alice, "browser") }, 2},
		"who comes back with an error": {[]vault.Owner{alice, alice}, comeBackWith("access_denied"), 0},
		"who makes an answer up":       {[]vault.Owner{alice, alice}, comeBackWith("invalid_client"), 1},
	} {
		w := newWorld(t)
		for _, who := range tt.again {
			way := w.beginAs(t, who, "browser")
			if tt.end != nil {
				tt.end(t, w, way)
			}
		}
		if len(w.Registered()) != 1 || len(w.Forms()) != tt.asked {
			t.Errorf("%s: %d registrations, %d requests for tokens: want %d", name, len(w.Registered()),
				len(w.Forms()), tt.asked)
		}
	}
}

func comeBackWith(code string) func(*testing.T, *world, way) {
	return func(t *testing.T, w *world, way way) {
		answer := w.visit(t, way.URL)
		answer.Del("code")
		answer.Set("error", code)
		if _, err := w.endAs(answer, alice, "browser"); err == nil {
			t.Errorf("signed in with %s", code)
		}
	}
}
