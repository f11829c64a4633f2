package recent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

var day = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)

// call is the record of a call, a number of seconds after day.
func call(second int, user string) *record.Record {
	return &record.Record{Time: day.Add(time.Duration(second) * time.Second), Kind: record.KindCall,
		ID: fmt.Sprint("c-", second), User: user, Method: mcp.MethodToolsCall, Decision: "allow"}
}

func open(t *testing.T, deps Deps) *Records {
	t.Helper()
	if deps.Replica == "" {
		deps.Replica = "one"
	}
	r := New(deps)
	t.Cleanup(func() { r.Close(context.Background()) })
	return r
}

func ids(items []*Item) string {
	var all []string
	for _, i := range items {
		all = append(all, i.Record.ID)
	}
	return strings.Join(all, " ")
}

func TestFind(t *testing.T) {
	r := open(t, Deps{})
	for _, second := range []int{1, 3, 2, 5, 4} { // as they come from several calls at a time
		r.Put(call(second, []string{"alice", "bob"}[second%2]))
	}
	for _, tt := range []struct {
		name, want string
		Query
		more bool
	}{
		{"all", "c-5 c-4 c-3 c-2 c-1", Query{}, false},
		{"user", "c-4 c-2", Query{Filter: record.Filter{User: "alice"}}, false},
		{"since", "c-5 c-4 c-3", Query{Filter: record.Filter{Since: day.Add(3 * time.Second)}}, false},
		{"page", "c-5 c-4", Query{Limit: 2}, true},
		{"last page", "c-5 c-4 c-3 c-2 c-1", Query{Limit: 5}, false},
	} {
		p := r.Find(t.Context(), tt.Query)
		if got := ids(p.Items); got != tt.want || p.More != tt.more || p.Partial != nil {
			t.Errorf("%s: %q, more %v, %v", tt.name, got, p.More, p.Partial)
		}
	}
	var pages []string
	for q := (Query{Limit: 2}); ; {
		p := r.Find(t.Context(), q)
		pages = append(pages, ids(p.Items))
		if !p.More {
			break
		}
		q.Before = p.Items[len(p.Items)-1].Cursor
	}
	if want := []string{"c-5 c-4", "c-3 c-2", "c-1"}; !slices.Equal(pages, want) {
		t.Errorf("pages %q, want %q", pages, want)
	}
}

// TestBounds: one user does not displace what others did, ordinary calls make room for others, and the
// newest records are there, whatever they are. What comes late is in its place.
func TestBounds(t *testing.T) {
	const most = 256 << 10 // room for about 300
	r := open(t, Deps{Most: most * 4 / 3})
	for i := range 3000 {
		one := call(i, "busy")
		one.Outcome = "ok"
		switch {
		case i < 10:
			one.User = "quiet"
		case i%100 == 50:
			one.Outcome = "upstream"
		case i%100 == 60:
			one.Duration = time.Minute
		}
		r.Put(one)
	}
	all := r.all()
	of := map[string]int{}
	for at, item := range all {
		e := item.Record
		of[e.User+" "+e.Outcome]++
		of[fmt.Sprint(e.Duration > 0)]++
		if at > 0 && all[at-1].compare(item.Cursor) >= 0 {
			t.Fatalf("%d is out of order", at)
		}
	}
	if of["quiet ok"] != 10 || of["busy upstream"] != 30 || of["true"] != 30 || of["busy ok"] < 100 ||
		all[len(all)-1].Record.ID != "c-2999" || r.bytes > most {
		t.Errorf("%d records, %d bytes: %v", len(all), r.bytes, of)
	}
	for i := range 3000 { // failures alone do not keep out what is ordinary
		one := call(3000+i, "busy")
		one.Outcome = "upstream"
		r.Put(one)
	}
	ok := call(6000, "quiet")
	ok.Outcome = "ok"
	r.Put(ok)
	for i := range 30 {
		r.Put(call(6001+i, "busy"))
	}
	if p := r.Find(t.Context(), Query{Filter: record.Filter{ID: "c-6000"}}); len(p.Items) != 1 || r.bytes > most {
		t.Errorf("an ordinary call is not found after many that failed; %d bytes", r.bytes)
	}
	r.Keep("", most/3)
	r.Put(call(6100, "busy"))
	if r.bytes > most/4 {
		t.Errorf("%d bytes with a smaller bound", r.bytes)
	}
}

func TestCursor(t *testing.T) {
	for _, c := range []Cursor{{}, {Micros: 1763884800000001, Replica: "a-b", Seq: 7}} {
		if got, err := ParseCursor(c.String()); err != nil || got != c {
			t.Errorf("%v becomes %v, %v", c, got, err)
		}
	}
	for _, text := range []string{"", "1", "1-2", "x-1-a", "1-x-a"} {
		if _, err := ParseCursor(text); err == nil {
			t.Errorf("%q is a cursor", text)
		}
	}
}

// TestShown: who may not read arguments gets neither them nor a digest.
func TestShown(t *testing.T) {
	rec := call(1, "alice")
	rec.Arguments, rec.ArgumentsDigest, rec.Explained = mcp.Raw(`{"a":1}`), "sha256:00",
		[]string{"when is true" + record.ValuesFollow + "a=1"}
	item := newItem(rec, "one", 3)
	if item.Shown(true) != rec {
		t.Error("the record is another one")
	}
	without := item.Shown(false)
	if without.Arguments != nil || without.ArgumentsDigest != "" || without.User != "alice" ||
		without.Explained[0] != "when is true" || rec.Arguments == nil {
		t.Errorf("without arguments: %+v", without)
	}
}

// next returns the ids of the next n records.
func next(t *testing.T, f *Follower, n int) (string, int64) {
	t.Helper()
	var all []*Item
	var missed int64
	for len(all) < n {
		items, m, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, missed = append(all, items...), missed+m
	}
	return ids(all), missed
}

func TestFollow(t *testing.T) {
	t.Parallel()
	r := open(t, Deps{})
	for i := range 5 {
		r.Put(call(i, "alice"))
	}
	f, err := r.Follow(t.Context(), record.Filter{User: "alice"}, Cursor{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	r.Put(call(5, "bob"))
	r.Put(call(6, "alice"))
	if got, missed := next(t, f, 3); got != "c-3 c-4 c-6" || missed != 0 {
		t.Errorf("got %q, %d missed", got, missed)
	}
	again, err := r.Follow(t.Context(), record.Filter{}, r.all()[3].Cursor, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := next(t, again, 3); got != "c-4 c-5 c-6" {
		t.Errorf("after a cursor: %q", got)
	}
	f.Close()
	if _, _, err := f.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	r.Close(t.Context())
	if _, _, err := again.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("at the end of all: %v", err)
	}
	if _, err := r.Follow(t.Context(), record.Filter{}, Cursor{}, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestSlowFollower: what a follower does not take is counted, and nothing grows.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	r := open(t, Deps{})
	f, err := r.Follow(t.Context(), record.Filter{}, Cursor{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	const all = 3 * mostFresh
	for i := range all {
		r.Put(call(i, "alice"))
	}
	got, missed := 0, int64(0)
	for got+int(missed) < all {
		items, m, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(items) > mostPending {
			t.Fatalf("%d were waiting", len(items))
		}
		got, missed = got+len(items), missed+m
	}
	if missed == 0 || got+int(missed) != all {
		t.Errorf("%d came, %d were missed, of %d", got, missed, all)
	}
}

func TestMostFollowers(t *testing.T) {
	r := open(t, Deps{})
	for range MostFollowers {
		if _, err := r.Follow(t.Context(), record.Filter{}, Cursor{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Follow(t.Context(), record.Filter{}, Cursor{}, 0); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
}
