package session

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestEndWithOthers: OnEnd may wait for somebody who waits for the session.
func TestEndWithOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		appended := make(chan error)
		m, err := NewMemory(Config{}, Deps{OnEnd: func(Record) {
			if err := <-appended; !errors.Is(err, ErrNotFound) {
				t.Errorf("an event of a session that has ended: %v", err)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		r, err := m.Create(t.Context(), Record{User: "ann", Client: "c"})
		if err != nil {
			t.Fatal(err)
		}
		h := m.get(nameOf(r.Key()))
		_ = h.await(t.Context()) // the turn is free
		go func() {
			if err := m.Delete(t.Context(), r.User, r.ID); err != nil {
				t.Errorf("the end: %v", err)
			}
		}()
		synctest.Wait()
		go func() {
			_, err := m.Log().Append(t.Context(), r.Key(), "c-1", []byte("{}"))
			appended <- err
		}()
		synctest.Wait() // both wait for the turn
		h.done()
		synctest.Wait()
	})
}
