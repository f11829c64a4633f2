package dial_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// Requests with the credentials of two users never share a connection: excess data after
// one user's answer is not read as the other's answer.
func TestConnectionsOfUsersAreApart(t *testing.T) {
	endpoint := fake.NewTokens(t)
	for _, how := range []string{"own", "standard", "HTTP/2"} {
		t.Run(how, func(t *testing.T) {
			fake.Eras(t, func(t *testing.T, stateful bool) {
				var mu sync.Mutex
				users := make(map[string]map[string]bool) // by connection
				f := fake.NewUnstarted(stateful, nil)
				handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if user, _, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer exchanged-"), "-"); ok {
						mu.Lock()
						if users[r.RemoteAddr] == nil {
							users[r.RemoteAddr] = make(map[string]bool)
						}
						users[r.RemoteAddr][user] = true
						mu.Unlock()
					}
					if r.Host != f.Listener.Addr().String() {
						t.Errorf("the Host is %q", r.Host)
					}
					f.ServeHTTP(w, r)
				})
				cfg := upstream.Config{Auth: endpoint.Exchange(), HTTPClient: how}
				if how == "HTTP/2" {
					cfg.HTTPClient = ""
					f.Server = fake.NewHTTP2(t, handler)
				} else {
					f.Server = httptest.NewServer(handler)
					t.Cleanup(f.Close)
				}
				cfg.URL = f.URL
				u, _ := fake.StartAuthorized(t, cfg)
				for range 5 {
					for _, name := range []string{"alice", "bob"} {
						if _, err := u.Handle(mcp.WithCaller(t.Context(), fake.User(name)), fake.Of(name, fake.Tool("a"))); err != nil {
							t.Fatal(err)
						}
					}
				}
				mu.Lock()
				defer mu.Unlock()
				seen := make(map[string]bool)
				for address, on := range users {
					if len(on) != 1 {
						t.Errorf("%d users on the connection %s", len(on), address)
					}
					for user := range on {
						seen[user] = true
					}
				}
				if len(seen) != 2 {
					t.Errorf("users %v", seen)
				}
			})
		})
	}
}
