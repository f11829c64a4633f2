package redisdb_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

func open(t *testing.T, cfg redisdb.Config) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func ping(t *testing.T, db *redisdb.DB) error {
	t.Helper()
	_, err := db.Run(t.Context(), redisdb.NewScript("return redis.call('SET', KEYS[1], '1')"), []string{db.Key("k")})
	return err
}

// The rights of the ACL user from the documentation suffice. Other keys and a wrong
// password are refused.
func TestACLUser(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	if err := client.Do(t.Context(), "ACL", "SETUSER", "gate", "on", ">s3cret", "~gatehouse:*", "&gatehouse:*", "-@all",
		"+set", "+eval", "+evalsha").Err(); err != nil {
		t.Fatal(err)
	}
	cfg := redisdb.Config{URL: mcp.Secret(server.URL()), Username: "gate", Password: "s3cret"}
	if err := ping(t, open(t, cfg)); err != nil {
		t.Errorf("as the user: %v", err)
	}
	cfg.Prefix = "other:"
	if err := ping(t, open(t, cfg)); !errors.Is(err, redisdb.ErrDown) {
		t.Errorf("with keys that are not the user's: %v", err)
	}
	cfg.Prefix, cfg.Password = "", "wrong"
	if err := ping(t, open(t, cfg)); !errors.Is(err, redisdb.ErrDown) {
		t.Errorf("with a wrong password: %v", err)
	}
}
