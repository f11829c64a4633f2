package mcp

import (
	"runtime"
	"testing"
	"time"
)

// TestDerive: what is made of a list is made once for each key, has the cursor of the list that is asked,
// and is kept only as long as there is room.
func TestDerive(t *testing.T) {
	cursor, made := "next", 0
	list := &List{Items: []Item{{Name: "x", Raw: Raw(`{}`)}}}
	half := func(l *List) *List {
		made++
		return l.With(nil)
	}
	first := list.Derive(1, half)
	again := list.WithNext(&cursor).Derive(1, half)
	if made != 1 || again.Origin() != first || again.Next != &cursor || first.Next != nil {
		t.Errorf("made %d times: %+v, then %+v", made, first, again)
	}
	if got := list.Derive(2, func(l *List) *List { return l }); got != list {
		t.Error("a list that stays the same is another one")
	}
	nested := list.Derive(3, func(l *List) *List { return l.Derive(1, half) })
	if made != 1 || nested != first {
		t.Error("a list that two keys share was made again")
	}
	for i := range 2 * maxDerived {
		list.Derive(i, half)
	}
	if n := len(list.derived); n > maxDerived {
		t.Errorf("%d lists are kept", n)
	}
	for i := range 20 {
		list.Derive(-1-i, func(l *List) *List { return l.With([]Item{{Raw: make(Raw, maxDerivedBytes/16)}}) })
	}
	if list.bytes > maxDerivedBytes || list.bytes < maxDerivedBytes/2 {
		t.Errorf("%d bytes are kept", list.bytes)
	}
	before := len(list.derived)
	list.Derive("huge", func(l *List) *List { return l.With([]Item{{Raw: make(Raw, maxDerivedBytes)}}) })
	if len(list.derived) != before {
		t.Error("a list that is too large was kept")
	}
}

// TestDerivedKeepsNoList: a list goes though its items live on in another one.
func TestDerivedKeepsNoList(t *testing.T) {
	gone := make(chan struct{})
	derived := func() *List {
		list := &List{Items: []Item{{Raw: Raw(`{}`)}}}
		runtime.AddCleanup(list, func(gone chan struct{}) { close(gone) }, gone)
		return list.Derive(1, func(l *List) *List { return l.With(l.Items) })
	}()
	for range 1000 {
		runtime.GC()
		select {
		case <-gone:
			runtime.KeepAlive(derived)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the list is kept")
}
