package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/redis/go-redis/v9"
)

// dump is every key and value of a Redis in one text.
func dump(t *testing.T, client *redis.Client) string {
	t.Helper()
	var all strings.Builder
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		value, err := client.Dump(t.Context(), key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		all.WriteString(key + " " + value + "\n")
		if fields, err := client.HGetAll(t.Context(), key).Result(); err == nil { // which DUMP may compress
			for name, field := range fields {
				all.WriteString(name + " " + field + "\n")
			}
		}
	}
	return all.String()
}

// heard returns what somebody hears next who listens to all channels.
func heard(t *testing.T, client *redis.Client) func() *redis.Message {
	t.Helper()
	sub := client.PSubscribe(t.Context(), "*")
	t.Cleanup(func() { sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() *redis.Message {
		m, err := sub.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// H/191: whoever reads all of Redis, and hears all that is published, finds nothing that a
// client or a server has said.
func TestRedisHoldsNothingInClear(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	said := heard(t, client)
	mail := make(chan string, 10)
	s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	other := newReplica(t, server.URL(), session.Config{}, session.Deps{OnMail: func(m []byte) { mail <- string(m) }})
	const canary = "canary"
	r, err := s.Create(t.Context(), session.Record{User: "alice", Client: canary + "-client", Revision: "r1", Initialized: true,
		ClientInfo: mcp.Raw(`{"name":"canary-info"}`), Caps: mcp.Raw(`{"canary-caps":{}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), r.User, r.ID, func(r *session.Record) { r.Subscriptions = []string{canary + "://x"} }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Log().Begin(t.Context(), r.Key(), "c-1", []byte(`"canary-id"`), []byte(strings.Repeat(canary, 100))); err != nil {
		t.Fatal(err)
	}
	if err := s.Grants().Grant(t.Context(), r.Key(), map[string]string{canary + "-tool": canary + "-digest"}, 0); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{canary, strings.Repeat(canary, 1<<16)} {
		if err := s.Send(t.Context(), other.Self(), []byte(message)); err != nil {
			t.Fatal(err)
		}
		if got := <-mail; got != message {
			t.Errorf("%d bytes came of %d", len(got), len(message))
		}
	}
	if err := s.Bindings().Tell(t.Context(), []byte(canary)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(dump(t, client), canary) {
		t.Error("it stands in Redis")
	}
	for published := 0; published < 3; { // the letters
		if m := said(); strings.Contains(m.Payload, canary) {
			t.Errorf("it is published on %s", m.Channel)
		} else if strings.HasPrefix(m.Payload, "m") || strings.HasPrefix(m.Payload, "b") {
			published++
		}
	}
}

// Whoever can write in Redis cannot have a stream say what no server has said, nor a sealed
// event come at another place.
func TestNobodyMakesEvents(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	ctx := context.Background()
	event := func(id string, data string) *redis.XAddArgs {
		return &redis.XAddArgs{ID: id, Values: []string{"d", data}}
	}
	tests := []struct {
		name  string
		spoil func(key func(session.Record, string) string, r, other session.Record, first string) error
	}{
		{"one in clear", func(key func(session.Record, string) string, r, _ session.Record, _ string) error {
			add := event("9-0", `{"jsonrpc":"2.0","id":1,"result":{}}`)
			add.Stream = key(r, "s")
			return client.XAdd(ctx, add).Err()
		}},
		{"one that came before, again", func(key func(session.Record, string) string, r, _ session.Record, first string) error {
			add := event("9-0", first)
			add.Stream = key(r, "s")
			return client.XAdd(ctx, add).Err()
		}},
		{"one of another stream", func(key func(session.Record, string) string, r, _ session.Record, first string) error {
			add := event("1-0", first)
			add.Stream = key(r, "t")
			return errors.Join(client.Del(ctx, key(r, "t")).Err(), client.XAdd(ctx, add).Err())
		}},
		{"one of another session", func(key func(session.Record, string) string, r, other session.Record, first string) error {
			add := event("1-0", first)
			add.Stream = key(other, "s")
			return errors.Join(client.Del(ctx, key(other, "s")).Err(), client.XAdd(ctx, add).Err())
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newReplica(t, server.URL(), session.Config{}, session.Deps{})
			r, other := s.create(t), s.create(t)
			for _, at := range []struct{ key, stream string }{{r.Key(), "s"}, {r.Key(), "t"}, {other.Key(), "s"}} {
				if _, err := s.Log().Append(t.Context(), at.key, at.stream, []byte("said")); err != nil {
					t.Fatal(err)
				}
			}
			key := func(r session.Record, stream string) string { return "gatehouse:e:{alice}:" + r.ID + ":" + stream }
			entries, err := client.XRange(t.Context(), key(r, "s"), "-", "+").Result()
			if err != nil || len(entries) != 1 {
				t.Fatal(err, entries)
			}
			if err := tt.spoil(key, r, other, entries[0].Values["d"].(string)); err != nil {
				t.Fatal(err)
			}
			spoilt := 0
			for _, at := range []struct{ key, stream string }{{r.Key(), "s"}, {r.Key(), "t"}, {other.Key(), "s"}} {
				events, _, _, err := s.Log().Read(t.Context(), at.key, at.stream, 0)
				switch {
				case errors.Is(err, session.ErrNotFound) && events == nil:
					spoilt++
				case err != nil || len(events) != 1 || string(events[0].Data) != "said":
					t.Errorf("%s: %d events, %v", at.stream, len(events), err)
				}
			}
			if spoilt != 1 {
				t.Errorf("%d streams are as if they were not there, want the one", spoilt)
			}
		})
	}
}

// What was shown can be made up by nobody, or moved to another tool.
func TestNobodyMakesGrants(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	one, other := newReplica(t, server.URL(), session.Config{}, session.Deps{}), newReplica(t, server.URL(), session.Config{}, session.Deps{})
	r := one.create(t)
	key := "gatehouse:g:{alice}:" + r.ID
	if err := one.Grants().Grant(t.Context(), r.Key(), map[string]string{"a": "x", "b": "x"}, 0); err != nil {
		t.Fatal(err)
	}
	fields, err := client.HGetAll(t.Context(), key).Result()
	if err != nil || len(fields) != 2 {
		t.Fatal(err, fields)
	}
	swapped := make(map[string]string)
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	swapped[names[0]], swapped[names[1]] = fields[names[1]], fields[names[0]]
	for what, values := range map[string]map[string]string{"swapped": swapped, "in clear": {"c": "x 0", names[0]: "x 0", names[1]: "x 0"}} {
		if err := client.HSet(t.Context(), key, values).Err(); err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"a", "b", "c"} {
			if ok, err := other.Grants().Granted(t.Context(), r.Key(), tool, "x"); ok || err != nil {
				t.Errorf("%s: %s counts as shown: %t, %v", what, tool, ok, err)
			}
		}
	}
}

// A letter is taken once, whoever publishes it again and however much later, and one that
// nobody with the key has written for here is not taken.
func TestLettersAreTakenOnce(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	said := heard(t, client)
	mail := make(chan string, 20_000)
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	b := newReplica(t, server.URL(), session.Config{}, session.Deps{
		OnMail:     func(m []byte) { mail <- string(m) },
		OnBindings: func(m []byte) { mail <- "told " + string(m) },
	})
	if err := errors.Join(a.Send(t.Context(), b.Self(), []byte("call")), a.Broadcast(t.Context(), []byte("all")), a.Bindings().Tell(t.Context(), []byte("x"))); err != nil {
		t.Fatal(err)
	}
	var letters []*redis.Message
	for len(letters) < 3 {
		if m := said(); strings.HasPrefix(m.Payload, "m"+a.Self()) || strings.HasPrefix(m.Payload, "b"+a.Self()) {
			letters = append(letters, m)
		}
	}
	for _, want := range []string{"call", "all", "told x"} {
		if got := <-mail; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	publish := func(channel, payload string) {
		t.Helper()
		if err := client.Publish(t.Context(), channel, payload).Err(); err != nil {
			t.Fatal(err)
		}
	}
	again := func() {
		t.Helper()
		for _, m := range letters {
			publish(m.Channel, m.Payload)
		}
	}
	again()
	publish("gatehouse:all", letters[0].Payload)                                    // for one, to all
	publish("gatehouse:to:"+b.Self(), letters[1].Payload)                           // for all, to one
	publish("gatehouse:all", "b"+letters[1].Payload[1:])                            // as something else
	publish("gatehouse:all", strings.Replace(letters[1].Payload, a.Self(), "x", 1)) // by another one
	publish("gatehouse:all", "m"+a.Self()+" call")
	publish("gatehouse:all", "mx ")
	const others = 9000 // more than are remembered one by one
	for range others {
		if err := a.Send(t.Context(), b.Self(), []byte("next")); err != nil {
			t.Fatal(err)
		}
	}
	again()
	if err := a.Broadcast(t.Context(), []byte("last")); err != nil {
		t.Fatal(err)
	}
	for range others {
		if got := <-mail; got != "next" {
			t.Fatalf("got %q", got)
		}
	}
	if got := <-mail; got != "last" {
		t.Errorf("got %q", got)
	}
}

// While sessions.key is replaced, replicas that have either as theirs and accept the other go
// on together; one without the old one knows nothing that it has sealed.
func TestKeysAreReplaced(t *testing.T) {
	server := redistest.Start(t)
	const before, after = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	mail := make(chan string, 10)
	with := func(key string, previous ...mcp.Secret) *session.Redis {
		t.Helper()
		s, err := session.NewRedis(session.Config{Store: session.StoreRedis, Redis: redisdb.Config{URL: mcp.Secret(server.URL())}, Key: mcp.Secret(key), PreviousKeys: previous},
			session.Deps{OnMail: func(m []byte) { mail <- string(m) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	first := with(before, after)
	r, err := first.Create(t.Context(), session.Record{User: "alice", Revision: "r1", Initialized: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Log().Append(t.Context(), r.Key(), "s", []byte("one")); err != nil {
		t.Fatal(err)
	}
	second := with(after, before)
	if _, err := second.Get(t.Context(), r.User, r.ID); err != nil {
		t.Errorf("a session of the old key: %v", err)
	}
	if _, err := second.Log().Append(t.Context(), r.Key(), "s", []byte("two")); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*session.Redis{"old": first, "new": second} {
		events, _, _, err := s.Log().Read(t.Context(), r.Key(), "s", 0)
		if err != nil || len(events) != 2 || string(events[0].Data)+string(events[1].Data) != "onetwo" {
			t.Errorf("the one with the %s key reads %d events, %v", name, len(events), err)
		}
	}
	if err := errors.Join(first.Send(t.Context(), second.Self(), []byte("hello")), second.Send(t.Context(), first.Self(), []byte("hello"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-mail:
		case <-time.After(patience):
			t.Fatal("they do not hear each other")
		}
	}
	if _, err := with(after).Get(t.Context(), r.User, r.ID); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("without the old key: %v", err)
	}
}
