package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func keepResult(t *testing.T, r *Results, user, id, value string, ttl time.Duration, want bool) {
	t.Helper()
	if kept, err := r.Keep(t.Context(), user, id, []byte(value), ttl); kept != want || err != nil {
		t.Errorf("%s %s of %d bytes: kept %v, %v", user, id, len(value), kept, err)
	}
}

func wantResult(t *testing.T, r *Results, user, id, want string) {
	t.Helper()
	if got, err := r.Load(t.Context(), user, id); string(got) != want || err != nil {
		t.Errorf("%s %s: %q, %v; want %q", user, id, got, err, want)
	}
}

func TestResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewResults(ResultsConfig{MaxPerUser: 2, Max: 3, MaxUserBytes: 10, MaxBytes: 15})
		keepResult(t, r, "u", "1", "12345", time.Minute, true)
		keepResult(t, r, "u", "2", "123456", time.Minute, false) // too many bytes of this user
		keepResult(t, r, "u", "2", "1", time.Hour, true)
		keepResult(t, r, "u", "3", "1", time.Minute, false) // too many of this user
		keepResult(t, r, "u", "1", "54321", 2*time.Minute, true)
		keepResult(t, r, "v", "1", "1234567890", time.Minute, false) // too many bytes in all
		keepResult(t, r, "v", "1", "123456789", time.Hour, true)
		keepResult(t, r, "w", "1", "", time.Hour, false) // too many in all
		wantResult(t, r, "u", "1", "54321")
		wantResult(t, r, "v", "2", "")
		time.Sleep(time.Minute)
		wantResult(t, r, "u", "1", "54321") // kept anew
		time.Sleep(time.Minute)
		synctest.Wait()
		wantResult(t, r, "u", "1", "")
		keepResult(t, r, "u", "1", "12345", time.Hour, true) // there is room again
		r.close()
		wantResult(t, r, "u", "1", "")
		keepResult(t, r, "u", "1", "", time.Hour, false)
		if len(r.kept)+len(r.users) != 0 || r.all != (usage{}) {
			t.Errorf("left: %v %v %v", r.kept, r.users, r.all)
		}
	})
}

// TestResultsOfTheOnlyUser: without authentication there is one user, who may have everything.
func TestResultsOfTheOnlyUser(t *testing.T) {
	c := ResultsConfig{}.withDefaults()
	if got := c.of(mcp.Caller{}.User()); got != (usage{c.Max, c.MaxBytes}) {
		t.Errorf("%v", got)
	}
	if got := c.of(mcp.Caller{Subject: "a"}.User()); got != (usage{DefaultMaxResultsPerUser, DefaultMaxUserResultBytes}) {
		t.Errorf("%v", got)
	}
}
