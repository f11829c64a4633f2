package session

import (
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// H/178: a question of which the answer did not come in time is asked again by the client
// library. It is answered as before: or else nobody ends what one was told to end, and
// nobody has what one has claimed.
func TestBindingsAskedTwice(t *testing.T) {
	server := redistest.Start(t)
	s, err := NewRedis(Config{Store: StoreRedis, Redis: redisdb.Config{URL: mcp.Secret(server.URL())}, Key: "0123456789abcdef0123456789abcdef"}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := s.Bindings()
	asked := func(what string, script *redisdb.Script, kind string, at Place, more []string, want int64, args ...any) {
		t.Helper()
		for _, when := range []string{"at first", "again"} {
			if got, err := b.run(t.Context(), script, kind, at, more, args...); err != nil || got != want {
				t.Errorf("H/178 %s, %s: %v %v, want %d", what, when, got, err, want)
			}
		}
	}
	for what, at := range map[string]Place{
		"with its session": {Key: "user:AAAAAAAAAAAAAAAAAAAAAAAAAA", Server: "one"},
		"when unused":      {Key: "user:~0123", Server: "one", Idle: time.Minute},
	} {
		if _, turn, err := b.Put(t.Context(), at, Binding{"1", "v"}); turn != Yours || err != nil {
			t.Fatalf("%s: %v %v", what, turn, err)
		}
		server.Advance(t, 2*time.Minute)
		idle, ended := at.Idle.Milliseconds(), endedTime.Milliseconds()
		asked("the end "+what, b.end, "b", at, nil, int64(Alone), "1", idle, ended, "word")
		asked("who asks later "+what, b.end, "b", at, nil, int64(Kept), "1", idle, ended, "other")
		asked("a claim "+what, b.claims, "c", at, []string{"x"}, 1, "word", claimTime.Milliseconds())
		asked("who claims later "+what, b.claims, "c", at, []string{"x"}, 0, "other", claimTime.Milliseconds())
	}
}
