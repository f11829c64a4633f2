package session_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/session/sessiontest"
)

func TestQuestionsInMemory(t *testing.T) {
	sessiontest.RunQuestions(t, func(*testing.T) (a, b, c sessiontest.Questions) {
		all := sessiontest.NewMemoryBindings()
		return all.Replica(), all.Replica(), all.Replica()
	})
}

func TestRedisQuestions(t *testing.T) {
	server, cluster := redistest.Start(t), redistest.StartCluster(t)
	for name, url := range map[string]string{"single": server.URL(), "cluster": cluster.URL()} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			sessiontest.RunQuestions(t, func(t *testing.T) (a, b, c sessiontest.Questions) {
				runs++
				cfg := session.Config{Redis: redisdb.Config{Prefix: fmt.Sprintf("gatehouse-%d:", runs)}}
				replica := func() sessiontest.Questions { return newReplica(t, url, cfg, session.Deps{}).Bindings() }
				return replica(), replica(), replica()
			})
		})
	}
	t.Run("they are forgotten", func(t *testing.T) {
		a, b := newReplica(t, server.URL(), session.Config{}, session.Deps{}).Bindings(), newReplica(t, server.URL(), session.Config{}, session.Deps{}).Bindings()
		at := session.Place{Key: "u:AAAAAAAAAAAAAAAAAAAAAAAAAA", Server: "x"}
		if err := a.Ask(t.Context(), at, "k", "v"); err != nil {
			t.Fatal(err)
		}
		server.Advance(t, a.Life(at)+time.Second)
		if all, err := b.Asked(t.Context(), at); err != nil || len(all) > 0 {
			t.Errorf("%v %v", all, err)
		}
	})
	t.Run("without Redis", func(t *testing.T) {
		a := newReplica(t, server.URL(), session.Config{}, session.Deps{}).Bindings()
		server.Kill()
		at := session.Place{Key: "u:AAAAAAAAAAAAAAAAAAAAAAAAAA", Server: "x"}
		_, askedErr := a.Asked(t.Context(), at)
		_, answeredErr := a.Answered(t.Context(), at, "k")
		_, inheritErr := a.Inherit(t.Context(), at, session.Question{Key: "k", Replica: "r"})
		for what, err := range map[string]error{"Ask": a.Ask(t.Context(), at, "k", "v"), "Settle": a.Settle(t.Context(), at, "k"),
			"Asked": askedErr, "Answered": answeredErr, "Inherit": inheritErr} {
			if !errors.Is(err, session.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
