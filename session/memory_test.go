package session_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/session/sessiontest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

func TestMemory(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T, cfg session.Config, deps session.Deps) session.Store {
		m, err := session.NewMemory(cfg, deps)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, nil, 0)
}

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		name string
		cfg  session.Config
		want []string // parts of the error; none for no error
	}{
		{"the zero value", session.Config{}, nil},
		{"everything", session.Config{Store: "memory", IdleTimeout: time.Minute, MaxPerUser: 1, Max: 1}, nil},
		{"another store", session.Config{Store: "etcd"}, []string{`store: "etcd" does not exist: want memory or redis`}},
		{"redis", session.Config{Store: "redis", Redis: redisdb.Config{URL: "redis://localhost"},
			Key: "0123456789abcdef0123456789abcdef"}, nil},
		{"redis without a key", session.Config{Store: "redis", Redis: redisdb.Config{URL: "redis://localhost"}},
			[]string{"key: needed with store: redis"}},
		{"redis without a place", session.Config{Store: "redis", Key: "short"},
			[]string{"redis: url: want redis://", "key: 5 bytes are too few"}},
		{"redis for nothing", session.Config{Redis: redisdb.Config{URL: "redis://localhost"}},
			[]string{"redis: store is memory: write store: redis"}},
		{"all at once", session.Config{IdleTimeout: -1, MaxPerUser: -1, Max: -1},
			[]string{"idle_timeout: -1ns is negative", "max_per_user: -1 is negative", "max: -1 is negative"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want it to contain %q", err, part)
				}
			}
			if tt.cfg.Store == session.StoreRedis {
				return
			}
			m, newErr := session.NewMemory(tt.cfg, session.Deps{})
			if (newErr != nil) != (err != nil) {
				t.Errorf("NewMemory: %v, Validate: %v", newErr, err)
			}
			if newErr == nil {
				m.Homes().Close(t.Context())
			}
		})
	}
}

func BenchmarkMemoryUse(b *testing.B) {
	m, err := session.NewMemory(session.Config{MaxPerUser: 1000}, session.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Homes().Close(context.Background())
	user := mcp.Caller{}.User()
	var ids []string
	for range 1000 {
		r, err := m.Create(b.Context(), session.Record{User: user})
		if err != nil {
			b.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	ctx := b.Context()
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h, err := m.Homes().Use(ctx, home.Key{User: user, ID: ids[0]})
			if err != nil || session.Of(h).Key() == "" {
				b.Fatal(err)
			}
			h.Done()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				h, err := m.Homes().Use(ctx, home.Key{User: user, ID: ids[i%len(ids)]})
				if err != nil {
					b.Error(err)
					return
				}
				h.Done()
			}
		})
	})
}

func BenchmarkMemoryAppend(b *testing.B) {
	m, err := session.NewMemory(session.Config{}, session.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Homes().Close(context.Background())
	r, err := m.Create(b.Context(), session.Record{User: "alice"})
	if err != nil {
		b.Fatal(err)
	}
	h := m.Homes().Known(home.Key{User: r.User, ID: r.ID})
	data := []byte(strings.Repeat("x", 300))
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Log().Append(ctx, h, "s", data); err != nil {
			b.Fatal(err)
		}
	}
}
