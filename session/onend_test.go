package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

// openMemory makes a store that is closed at the end of the test, with one session.
func openMemory(t *testing.T) (*Memory, *home.Home) {
	t.Helper()
	m, err := NewMemory(Config{}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.homes.Close(context.Background()) })
	return m, begin(t, m, "ann")
}

// begin begins a session.
func begin(t *testing.T, m *Memory, user string) *home.Home {
	t.Helper()
	r, err := m.Create(t.Context(), Record{User: user, Revision: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	return m.homes.Known(home.Key{User: r.User, ID: r.ID})
}

// TestEndWithOthers: what ends with a session may wait for somebody who waits for the session.
func TestEndWithOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		appended := make(chan error)
		m, h := openMemory(t)
		h.Attach(func(home.Why) {
			if err := <-appended; !errors.Is(err, ErrNotFound) {
				t.Errorf("an event of a session that has ended: %v", err)
			}
		})
		if err := h.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() {
			if err := h.End(t.Context(), home.Ended); err != nil {
				t.Errorf("the end: %v", err)
			}
		}()
		synctest.Wait()
		go func() {
			_, err := m.Log().Append(t.Context(), h, "c-1", []byte("{}"))
			appended <- err
		}()
		synctest.Wait() // both wait for the turn
		h.Give()
		synctest.Wait()
		if m.homes.Len() != 0 {
			t.Error("the session has not ended")
		}
	})
}
