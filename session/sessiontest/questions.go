package sessiontest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/session"
)

// Questions is what a replica has of session.RedisBindings about questions.
type Questions interface {
	Self() string
	Ask(ctx context.Context, at session.Place, key, value string) error
	Answered(ctx context.Context, at session.Place, key string) (ours bool, err error)
	Asked(ctx context.Context, at session.Place) ([]session.Question, error)
	Inherit(ctx context.Context, at session.Place, q session.Question) (ours bool, err error)
	Settle(ctx context.Context, at session.Place, key string) error
}

// RunQuestions runs the suite over the questions that wait at replicas; each test has three.
func RunQuestions(t *testing.T, replicas func(t *testing.T) (a, b, c Questions)) {
	at := session.Place{Key: "user:AAAAAAAAAAAAAAAAAAAAAAAAAA", Server: "one", Idle: time.Hour}
	asks := func(t *testing.T, r Questions, key string) {
		t.Helper()
		if err := r.Ask(t.Context(), at, key, "value of "+key); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(t *testing.T, r Questions, key string, want bool) {
		t.Helper()
		if ours, err := r.Answered(t.Context(), at, key); err != nil || ours != want {
			t.Errorf("%s answers %s: %v %v, want %v", r.Self(), key, ours, err, want)
		}
	}
	inherits := func(t *testing.T, r Questions, of Questions, key string, want bool) {
		t.Helper()
		if ours, err := r.Inherit(t.Context(), at, session.Question{Key: key, Replica: of.Self()}); err != nil || ours != want {
			t.Errorf("%s inherits %s: %v %v, want %v", r.Self(), key, ours, err, want)
		}
	}
	// sees checks what waits at others, such as "x y".
	sees := func(t *testing.T, r Questions, where session.Place, want string, of Questions) {
		t.Helper()
		all, err := r.Asked(t.Context(), where)
		var got []string
		for _, q := range all {
			if q.Replica != of.Self() || q.Value != "value of "+q.Key {
				t.Errorf("%s sees %+v", r.Self(), q)
			}
			got = append(got, q.Key)
		}
		if slices.Sort(got); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s sees %q, %v; want %q", r.Self(), got, err, want)
		}
	}
	t.Run("others see it until it is answered", func(t *testing.T) {
		a, b, c := replicas(t)
		asks(t, a, "x")
		asks(t, a, "y")
		sees(t, a, at, "", a)
		sees(t, b, at, "x y", a)
		other := at
		other.Server = "two"
		sees(t, b, other, "", a)
		answers(t, a, "x", true)
		sees(t, c, at, "y", a)
		answers(t, b, "y", false) // not its own
		answers(t, a, "y", true)
		sees(t, b, at, "", a)
	})
	t.Run("one inherits it, and who had it does not answer any more", func(t *testing.T) {
		a, b, c := replicas(t)
		asks(t, a, "x")
		inherits(t, b, a, "x", true)
		inherits(t, c, a, "x", false)
		inherits(t, b, a, "never asked", false)
		sees(t, c, at, "x", b)
		answers(t, a, "x", false)
		if err := b.Settle(t.Context(), at, "x"); err != nil {
			t.Fatal(err)
		}
		sees(t, c, at, "", b)
		inherits(t, c, b, "x", false)
		answers(t, a, "x", false) // however late
	})
	t.Run("who inherits it goes, too", func(t *testing.T) {
		a, b, c := replicas(t)
		asks(t, a, "x")
		inherits(t, b, a, "x", true)
		inherits(t, c, b, "x", true)
		if err := b.Settle(t.Context(), at, "x"); err != nil { // it does not know
			t.Fatal(err)
		}
		sees(t, b, at, "x", c)
	})
	t.Run("what was lost is answered", func(t *testing.T) {
		a, _, _ := replicas(t)
		answers(t, a, "x", true)
	})
	t.Run("there is a bound, which those do not count for that are settled", func(t *testing.T) {
		a, b, _ := replicas(t)
		const most = 100
		for i := range most + 10 {
			asks(t, a, fmt.Sprint(i))
		}
		if all, err := b.Asked(t.Context(), at); err != nil || len(all) != most {
			t.Errorf("%d are kept, %v", len(all), err)
		}
		answers(t, a, "105", true) // which is not kept
		inherits(t, b, a, "7", true)
		if err := b.Settle(t.Context(), at, "7"); err != nil {
			t.Fatal(err)
		}
		asks(t, a, "more")
		if all, err := b.Asked(t.Context(), at); err != nil || len(all) != most || !slices.ContainsFunc(all, func(q session.Question) bool { return q.Key == "more" }) {
			t.Errorf("%d are kept when one was settled, %v", len(all), err)
		}
	})
}
