package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// exchanging is a gateway that calls its server "up" in the name of each user, with a token
// that the users' issuer exchanges for theirs.
type exchanging struct {
	*guarded
	door  *door
	desk  *desk
	other *mcptest.Issuer // its users are accepted too
}

// newExchanging starts a server that shows each user a tool of their own and returns the
// caller in its answers. The issuer has no token for the user "carol".
func newExchanging(t *testing.T, server string, change ...func(*gateway.Config)) *exchanging {
	t.Helper()
	issuer := newIssuer(t)
	e := &exchanging{door: newDoor(t, scripted(t, server), issuer), other: newIssuer(t)}
	e.door.On("tools/list", func(c *mcptest.Call) {
		c.Result(fmt.Sprintf(`{"tools":[{"name":"all","inputSchema":{"type":"object"}},{"name":"of-%s","inputSchema":{"type":"object"}}]}`, subjectOf(c.Received)))
	})
	e.door.On("tools/call", func(c *mcptest.Call) { c.Text("called by " + subjectOf(c.Received)) })
	e.desk = newDesk(issuer, func(r *http.Request) (claims, error) {
		if id, secret, ok := r.BasicAuth(); !ok || id != "gatehouse" || secret != url.QueryEscape(deskSecret) {
			return nil, errorCode("invalid_client")
		}
		subject, err := verified(r.PostFormValue("subject_token"), jose.ES256, issuer.Key().Public(), e.url)
		if err != nil || subject["iss"] != issuer.URL {
			return nil, fmt.Errorf("the subject token: %w", err)
		}
		if subject["sub"] == "carol" {
			return nil, errorCode("access_denied")
		}
		err = wantForm(r, map[string]string{
			"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
			"subject_token":        r.PostFormValue("subject_token"),
			"subject_token_type":   "urn:ietf:params:oauth:token-type:access_token",
			"requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
			"resource":             e.door.url,
			"audience":             "crm",
			"scope":                "crm",
		})
		return claims{"sub": subject["sub"], "aud": e.door.url, "scope": "crm", "client_id": "gatehouse"}, err
	})
	how := e.desk.clientAt(outbound.TypeTokenExchange)
	how.Issuer, how.Audience, how.Scopes = issuer.URL, "crm", []string{"crm"}
	plain := doing(t)
	cfg := gateway.Config{
		Auth:      auth.Config{Issuers: []auth.Issuer{{URL: issuer.URL}, {URL: e.other.URL}}},
		Upstreams: []upstream.Config{{Name: "up", URL: e.door.url, Auth: how}, {Name: "plain", URL: plain.URL}},
	}
	for _, c := range change {
		c(&cfg)
	}
	e.guarded = guardWith(t, issuer, cfg)
	e.other.Audience = e.url
	return e
}

// wantTools requests the list until it is as wanted: an upstream that answers a user slowly
// for the first time is temporarily left out.
func wantTools(t *testing.T, c *mcptest.Client, want ...string) {
	t.Helper()
	ctx := deadline(t)
	for {
		list := mustCall(t, c, "tools/list", "")
		got := names(t, list, "tools")
		if slices.Equal(got, want) {
			return
		}
		if slices.ContainsFunc(got, func(name string) bool { return !slices.Contains(want, name) }) || ctx.Err() != nil {
			t.Fatalf("the list is %q, want %q", got, want)
		}
	}
}

// TestTokenExchange: the server knows each user by a token that was issued for it in their
// name. No user sees what is shown to another.
func TestTokenExchange(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		t.Run("server "+server, func(t *testing.T) {
			e := newExchanging(t, server)
			tokens := map[string]string{}
			for _, user := range []string{"alice", "bob"} {
				tokens[user] = e.issuer.Token(claims{"sub": user})
			}
			for range 2 {
				for _, revision := range eras {
					for user, token := range tokens {
						c := e.raw(t, revision, token)
						wantTools(t, c, "up__all", "up__of-"+user, "plain__do")
						for _, tool := range []string{"up__all", "up__of-" + user} {
							if got := said(mustCall(t, c, "tools/call", fmt.Sprintf(`{"name":%q}`, tool))); got != "called by "+user {
								t.Errorf("%s of %s: %s", tool, user, got)
							}
						}
						stranger := map[string]string{"alice": "bob", "bob": "alice"}[user]
						missing := "up__of-" + strings.Repeat("x", len(stranger))
						want := strings.ReplaceAll(wholeCall(t, c, "tools/call", fmt.Sprintf(`{"name":%q}`, missing)), missing,
							"up__of-"+stranger)
						if got := wholeCall(t, c, "tools/call", fmt.Sprintf(`{"name":"up__of-%s"}`, stranger)); got != want {
							t.Errorf("what another one is shown: %s\nmissing: %s", got, want)
						}
					}
				}
			}
			issued := e.desk.tokens(t)
			if len(issued) != 2 {
				t.Errorf("%d tokens were issued, want one for each user", len(issued))
			}
			for _, token := range e.door.shown() {
				if !slices.Contains(issued, token) {
					t.Errorf("the server was shown a token that is not for it: %s", token)
				}
			}
			sessions := map[string]string{}
			for _, r := range e.door.Received("") {
				user := subjectOf(r)
				if before := sessions[r.Session]; r.Session != "" && before != "" && before != user {
					t.Errorf("a session of %s is used by %s", before, user)
				}
				sessions[r.Session] = user
			}
			// A new token of the user is exchanged again, because the first one may be
			// worthless now.
			c := e.raw(t, stateless, e.issuer.Token(claims{"sub": "alice"}))
			mustCall(t, c, "tools/call", `{"name":"up__all"}`)
			if got := e.desk.tokens(t); len(got) != 3 {
				t.Errorf("%d tokens were issued, want a third one for the new token", len(got))
			}
			wantNowhere(t, "the log", e.log.String(), append(e.desk.tokens(t), tokens["alice"], tokens["bob"], deskSecret)...)
		})
	}
}

// TestTokenExchangeRefused: a user without a token for the server is told so, in the
// gateway's own words, and keeps everything else.
func TestTokenExchangeRefused(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		t.Run("server "+server, func(t *testing.T) {
			e := newExchanging(t, server)
			foreign := e.other.Token(claims{"sub": "alice"})
			for _, revision := range eras {
				for _, u := range []struct{ who, token, text string }{
					{"a user for whom the issuer has nothing", e.issuer.Token(claims{"sub": "carol"}),
						"your token could not be exchanged for one (access_denied)"},
					{"a user of another issuer", foreign, "your sign-in is from another issuer"},
				} {
					c := e.raw(t, revision, u.token)
					wantTools(t, c, "plain__do")
					x, err := c.Send(deadline(t), "tools/call", `{"name":"up__all"}`)
					if err != nil {
						t.Fatal(err)
					}
					wantUpstreamError(t, u.who, x, u.text)
					x.Close()
					mustCall(t, c, "tools/call", `{"name":"plain__do"}`)
				}
			}
			_, refused := e.desk.answers()
			for _, why := range refused {
				if why != "access_denied" {
					t.Errorf("the desk refused: %s", why)
				}
			}
			if got := e.door.shown(); len(got) > 1 || len(got) == 1 && got[0] != "" {
				t.Errorf("the server was shown %q", got)
			}

			// One user's problem with the server does not affect another.
			alice, bob := e.raw(t, stateless, e.issuer.Token(claims{"sub": "alice"})),
				e.raw(t, stateless, e.issuer.Token(claims{"sub": "bob"}))
			for _, c := range []*mcptest.Client{alice, bob} {
				mustCall(t, c, "tools/call", `{"name":"up__all"}`)
			}
			before, _ := e.desk.answers()
			e.door.revoke(before...)
			e.door.keepOut("alice", 401)
			x, err := alice.Send(deadline(t), "tools/call", `{"name":"up__all"}`)
			if err != nil {
				t.Fatal(err)
			}
			wantUpstreamError(t, "who is kept out", x, "Upstream up does not let you (HTTP 401)")
			x.Close()
			if got := said(mustCall(t, bob, "tools/call", `{"name":"up__all"}`)); got != "called by bob" {
				t.Errorf("the other user: %s", got)
			}
			if after, _ := e.desk.answers(); len(after)-len(before) != 2 {
				t.Errorf("%d new tokens, want one for each", len(after)-len(before))
			}
		})
	}
}
