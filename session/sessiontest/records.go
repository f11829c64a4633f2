package sessiontest

import (
	"bytes"
	"crypto/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func testRecord(t *testing.T, f *fixture) {
	want := session.Record{
		User: "alice", Revision: "r1", LogLevel: "info", Initialized: true,
		ClientInfo: mcp.Raw(`{"name":"c","version":"1e2"}`), Caps: mcp.Raw(`{}`), Subscriptions: []string{"crm+file:///a"},
	}
	created, err := f.Create(t.Context(), want)
	succeeds(t, err)
	if created.Created.IsZero() {
		t.Error("Created is not set")
	}
	if got, want := created.Key(), "alice:"+created.ID; got != want {
		t.Errorf("key: got %q, want %q", got, want)
	}
	want.ID, want.Created = created.ID, created.Created
	got, err := f.Get(t.Context(), "alice", created.ID)
	succeeds(t, err)
	if !got.Created.Equal(want.Created) {
		t.Errorf("Created: got %s, want %s", got.Created, want.Created)
	}
	if got.User != want.User || got.ID != want.ID || got.Revision != want.Revision || got.LogLevel != want.LogLevel ||
		!got.Initialized ||
		!bytes.Equal(got.ClientInfo, want.ClientInfo) || !bytes.Equal(got.Caps, want.Caps) ||
		!reflect.DeepEqual(got.Subscriptions, want.Subscriptions) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	updated, err := f.Update(t.Context(), "alice", created.ID, func(r *session.Record) {
		r.LogLevel, r.Subscriptions = "error", nil
		r.User, r.ID, r.Created = "mallory", "mine", time.Time{}
	})
	succeeds(t, err)
	again, err := f.Get(t.Context(), "alice", created.ID)
	succeeds(t, err)
	for _, r := range []session.Record{updated, again} {
		if r.LogLevel != "error" || r.Subscriptions != nil || r.Revision != "r1" || r.Key() != created.Key() ||
			!r.Created.Equal(created.Created) {
			t.Errorf("after an update: got %+v", r)
		}
	}
}

func testCopies(t *testing.T, f *fixture) {
	body := []byte(`{"name":"client"}`)
	uris := []string{"a"}
	r, err := f.Create(t.Context(), session.Record{User: "alice", ClientInfo: body, Caps: body, Subscriptions: uris})
	succeeds(t, err)
	copy(body, `{"name":"CHANGED`)
	uris[0] = "changed"
	first, err := f.Get(t.Context(), "alice", r.ID)
	succeeds(t, err)
	if string(first.ClientInfo) != `{"name":"client"}` || string(first.Caps) != `{"name":"client"}` ||
		first.Subscriptions[0] != "a" {
		t.Errorf("the store shares what it was given: %s %s %q", first.ClientInfo, first.Caps, first.Subscriptions)
	}
	// Two readers that append to their results must not share an array.
	one := append(first.Subscriptions, "one")
	second, err := f.Get(t.Context(), "alice", r.ID)
	succeeds(t, err)
	two := append(second.Subscriptions, "two")
	if one[1] != "one" || two[1] != "two" {
		t.Errorf("appends of two readers met: %q %q", one, two)
	}
	first.LogLevel = "changed"
	if second.LogLevel != "" {
		t.Error("a record is shared")
	}
	body = []byte(`{"a":1}`)
	succeeds(t, f.update(t, "alice", r.ID, func(r *session.Record) { r.Caps = body }))
	copy(body, "changed")
	var kept *session.Record
	succeeds(t, f.update(t, "alice", r.ID, func(r *session.Record) { kept = r }))
	kept.LogLevel = "changed later"
	if got, err := f.Get(t.Context(), "alice", r.ID); err != nil || got.LogLevel != "" || string(got.Caps) != `{"a":1}` {
		t.Errorf("a record kept from an update, or what it was given, changes the stored one: %q %s, %v",
			got.LogLevel, got.Caps, err)
	}
}

func testTooLarge(t *testing.T, f *fixture) {
	big := mcp.String(strings.Repeat("x", session.MaxRecordBytes))
	for range maxPerUser + 1 {
		wantErr(t, "creating a record that is too large",
			second(f.Create(t.Context(), session.Record{User: "alice", ClientInfo: big})), session.ErrTooLarge)
	}
	r := f.create(t, "alice") // the refused ones do not count
	wantErr(t, "updating to a record that is too large",
		f.update(t, "alice", r.ID, func(r *session.Record) { r.Subscriptions = []string{string(big)} }), session.ErrTooLarge)
	if got, err := f.Get(t.Context(), "alice", r.ID); err != nil || got.Subscriptions != nil {
		t.Errorf("after a refused update: %q, %v", got.Subscriptions, err)
	}
}

func testIDs(t *testing.T, f *fixture) {
	seen := make(map[string]bool)
	for range 200 {
		r := f.create(t, "alice")
		if len(r.ID) != 26 || strings.Trim(r.ID, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			t.Fatalf("id %q is not 26 characters of base32", r.ID)
		}
		if seen[r.ID] {
			t.Fatalf("id %q came twice", r.ID)
		}
		seen[r.ID] = true
		f.delete(t, r)
	}
}

func testUnknown(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	ids := []string{
		"", "*", "../" + r.ID, r.ID + " ", " " + r.ID, r.ID + "\x00", r.ID + "\r\n", strings.ToLower(r.ID),
		r.ID[:25], r.ID + "A", "alice:" + r.ID, r.Key(), strings.Repeat("A", 10<<10), "\xff\xfe", "ümlaut", "%0d%0a", "{a}",
	}
	for range 1000 {
		ids = append(ids, rand.Text())
	}
	for _, id := range ids {
		wantErr(t, "get "+id, f.get(t, session.Record{User: "alice", ID: id}), session.ErrNotFound)
		wantErr(t, "update "+id, f.update(t, "alice", id,
			func(*session.Record) { t.Error("the change of an unknown session was run") }), session.ErrNotFound)
		wantErr(t, "delete "+id, f.Delete(t.Context(), "alice", id), session.ErrNotFound)
	}
	wantErr(t, "the one that exists", f.get(t, r), nil)
}

func testForeign(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	for _, user := range []string{"mallory", "", "ALICE", "alice "} {
		for range 20 { // over the whole idle time: the attempts must not prolong it
			f.pass(idle / 100)
			wantErr(t, "get by "+user, f.get(t, session.Record{User: user, ID: r.ID}), session.ErrNotFound)
			wantErr(t, "update by "+user, f.update(t, user, r.ID, func(r *session.Record) { r.LogLevel = "debug" }),
				session.ErrNotFound)
			wantErr(t, "delete by "+user, f.Delete(t.Context(), user, r.ID), session.ErrNotFound)
		}
	}
	f.wantEnded(t)
	f.pass(f.justAfter(idle/5 + time.Second))
	wantErr(t, "get by the owner after the idle time", f.get(t, r), session.ErrNotFound)

	r = f.create(t, "alice")
	if _, err := f.Get(t.Context(), "mallory", r.ID); err == nil {
		t.Error("get by another user succeeds")
	}
	if got, err := f.Get(t.Context(), "alice", r.ID); err != nil || got.LogLevel != "" {
		t.Errorf("the owner's session was disturbed: %+v, %v", got, err)
	}
}

func testFixation(t *testing.T, f *fixture) {
	const proposed = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
	r, err := f.Create(t.Context(), session.Record{User: "alice", ID: proposed})
	succeeds(t, err)
	if r.ID == proposed {
		t.Error("the proposed id was taken")
	}
	wantErr(t, "get by the proposed id", f.get(t, session.Record{User: "alice", ID: proposed}), session.ErrNotFound)

	victim := f.create(t, "alice")
	again, err := f.Create(t.Context(), victim)
	succeeds(t, err)
	if again.ID == victim.ID || again.Key() == victim.Key() {
		t.Error("creating from a record that exists takes its place")
	}
}

func testDelete(t *testing.T, f *fixture) {
	r, other := f.create(t, "alice"), f.create(t, "alice")
	f.delete(t, r)
	f.wantEnded(t, r.Key())
	wantErr(t, "get", f.get(t, r), session.ErrNotFound)
	wantErr(t, "update", f.update(t, "alice", r.ID, func(*session.Record) {}), session.ErrNotFound)
	wantErr(t, "second delete", f.Delete(t.Context(), "alice", r.ID), session.ErrNotFound)
	wantErr(t, "the other session", f.get(t, other), nil)
	f.wantEnded(t, r.Key())
}

func testIdle(t *testing.T, f *fixture) {
	used, updated, unused := f.create(t, "alice"), f.create(t, "alice"), f.create(t, "alice")
	for range 5 {
		f.pass(idle * 9 / 10)
		wantErr(t, "get of one in use", f.get(t, used), nil)
		if err := f.update(t, "alice", updated.ID, func(*session.Record) {}); err != nil {
			t.Errorf("update of one in use: %v", err)
		}
	}
	wantErr(t, "get of the unused", f.get(t, unused), session.ErrNotFound)
	f.wantEnded(t, unused.Key())

	f.pass(f.justBefore(idle))
	wantErr(t, "get just in time", f.get(t, used), nil)
	f.pass(f.justAfter(idle))
	wantErr(t, "get just too late", f.get(t, used), session.ErrNotFound)
	wantErr(t, "delete just too late", f.Delete(t.Context(), "alice", used.ID), session.ErrNotFound)
	f.pass(idle)
	f.settle()
	f.wantEnded(t, unused.Key(), used.Key(), updated.Key())
	for range maxPerUser { // all places are free again
		f.create(t, "alice")
	}
}

func testLateUpdate(t *testing.T, f *fixture) {
	f.pass(offBeat)
	deleted, idled := f.create(t, "alice"), f.create(t, "alice")
	known := []*home.Home{f.home(t, deleted), f.home(t, idled)}
	f.delete(t, deleted)
	f.pass(f.justAfter(idle))
	for _, r := range []session.Record{deleted, idled} {
		wantErr(t, "late event", f.append(t, r.Key(), "s"), session.ErrNotFound)
		wantErr(t, "read after it", f.read(t, r.Key(), "s", 0), session.ErrNotFound)
		wantErr(t, "late update", f.update(t, "alice", r.ID, func(r *session.Record) { r.LogLevel = "late" }),
			session.ErrNotFound)
		wantErr(t, "get after it", f.get(t, r), session.ErrNotFound)
	}
	f.pass(idle)
	f.settle()
	for _, h := range known {
		wantErr(t, "late event of a request", second(f.Store.Log().Append(t.Context(), h, "s", nil)), session.ErrNotFound)
		wantErr(t, "its change", second(f.Store.Update(t.Context(), h, func(*session.Record) {})), session.ErrNotFound)
		_, _, _, err := f.Store.Log().Read(t.Context(), h, "s", 0)
		wantErr(t, "its read", err, session.ErrNotFound)
	}
	f.wantEnded(t, deleted.Key(), idled.Key())
}

func testSameUser(t *testing.T, f *fixture) {
	a, b := f.create(t, "alice"), f.create(t, "alice")
	if a.Key() == b.Key() {
		t.Fatal("two sessions have one key")
	}
	succeeds(t, f.update(t, "alice", a.ID, func(r *session.Record) { r.LogLevel = "debug" }))
	if got, err := f.Get(t.Context(), "alice", b.ID); err != nil || got.LogLevel != "" {
		t.Errorf("the other session has level %q, %v", got.LogLevel, err)
	}
}

func testMaxPerUser(t *testing.T, f *fixture) {
	var all []session.Record
	for range maxPerUser {
		all = append(all, f.create(t, "alice"))
	}
	for range 1000 {
		wantErr(t, "one too many", second(f.Create(t.Context(), session.Record{User: "alice"})), session.ErrTooMany)
	}
	f.create(t, "bob")
	for _, r := range all {
		wantErr(t, "one of the others", f.get(t, r), nil)
	}
	f.delete(t, all[0])
	f.create(t, "alice")
	wantErr(t, "one too many again", second(f.Create(t.Context(), session.Record{User: "alice"})), session.ErrTooMany)
}

func testMaxPerUserEvicts(t *testing.T, f *fixture) {
	var all []session.Record
	for range maxPerUser {
		all = append(all, f.create(t, "alice"))
	}
	f.pass(f.justBefore(time.Minute))
	for _, r := range all[1:] {
		wantErr(t, "in use", f.get(t, r), nil)
	}
	wantErr(t, "one too many, all used lately", second(f.Create(t.Context(), session.Record{User: "alice"})),
		session.ErrTooMany)
	f.pass(time.Second + 2*f.slack)
	f.create(t, "alice")
	wantErr(t, "the one used longest ago", f.get(t, all[0]), session.ErrNotFound)
	for _, r := range all[1:] {
		wantErr(t, "one of the others", f.get(t, r), nil)
	}
	f.wantEnded(t, all[0].Key()) // just the one that made room
}

func testMaxAll(t *testing.T, f *fixture) {
	users := []string{"alice", "bob", "carol", "dave"}
	for i := range maxAll {
		f.create(t, users[i%len(users)])
	}
	wantErr(t, "one too many", second(f.Create(t.Context(), session.Record{User: "erin"})), session.ErrTooMany)
	f.pass(2 * idle)
	f.create(t, "erin")
}

func testColons(t *testing.T, f *fixture) {
	a, b := f.create(t, "a"), f.create(t, "a:b")
	wantErr(t, "get", f.get(t, session.Record{User: "a", ID: "b:" + b.ID}), session.ErrNotFound)
	for i, r := range []session.Record{a, b} {
		succeeds(t, second(f.Log().Append(t.Context(), r.Key(), "s", []byte{byte('0' + i)})))
	}
	for i, r := range []session.Record{a, b} {
		events, _, _, err := f.Log().Read(t.Context(), r.Key(), "s", 0)
		if err != nil || len(events) != 1 || events[0].Data[0] != byte('0'+i) {
			t.Errorf("log of %q: %v, %v", r.User, events, err)
		}
	}
}
