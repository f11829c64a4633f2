package largeresults

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Bounds{MaxPerUser: 2, Max: 3, MaxUserBytes: 10, MaxBytes: 15})
		keep(t, m, "u", "1", "12345", time.Minute, true)
		keep(t, m, "u", "2", "123456", time.Minute, false) // too many bytes of this user
		keep(t, m, "u", "2", "1", time.Hour, true)
		keep(t, m, "u", "3", "1", time.Minute, false) // too many of this user
		keep(t, m, "u", "1", "54321", 2*time.Minute, true)
		keep(t, m, "v", "1", "1234567890", time.Minute, false) // too many bytes in all
		keep(t, m, "v", "1", "123456789", time.Hour, true)
		keep(t, m, "w", "1", "", time.Hour, false) // too many in all
		want(t, m, "u", "1", "54321")
		want(t, m, "v", "2", "")
		time.Sleep(time.Minute)
		want(t, m, "u", "1", "54321") // kept anew
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, m, "u", "1", "")
		keep(t, m, "u", "1", "12345", time.Hour, true) // there is room again
		m.Close()
		want(t, m, "u", "1", "")
		keep(t, m, "u", "1", "", time.Hour, false)
		if len(m.kept)+len(m.users) != 0 || m.all != (usage{}) {
			t.Errorf("left: %v %v %v", m.kept, m.users, m.all)
		}
	})
}

// TestBoundsOfTheOnlyUser: without authentication there is one user, who may have everything.
func TestBoundsOfTheOnlyUser(t *testing.T) {
	b := Bounds{}.withDefaults()
	if got := b.of(mcp.Caller{}.User()); got != (usage{b.Max, b.MaxBytes}) {
		t.Errorf("%v", got)
	}
	if got := b.of(mcp.Caller{Subject: "a"}.User()); got != (usage{defaultMaxPerUser, defaultMaxUserBytes}) {
		t.Errorf("%v", got)
	}
}
