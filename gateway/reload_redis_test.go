package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// A rotated password of Redis is applied with the file that contains it, and does not prevent
// other changes of the configuration.
func TestRedisPasswordRotates(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	acl := func(rules ...any) {
		t.Helper()
		if err := client.Do(t.Context(), append([]any{"ACL", "SETUSER", "rotated", "on", "~*", "&*", "+@all"},
			rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	acl(">one")
	secret := filepath.Join(t.TempDir(), "password")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("one\n")
	good := newSite(t, true, one("work", saying("x")))
	text := fmt.Sprintf("admin: {listen: \"127.0.0.1:0\"}\nsessions: {store: redis, key: %s, redis: {url: %q, username: rotated, password: \"${file:%s}\"}}\nreplicas: {alone: true}\n"+
		"upstreams:\n- {name: good, url: %q}\n", "0123456789abcdef0123456789abcdef", server.URL(), secret, good.url)
	c := startConfigured(t, text)
	if err := c.redis.Room(t.Context()); err != nil {
		t.Fatal(err)
	}

	acl(">two")
	put("two\n")
	c.write(t, text+"shutdown_timeout: 7s\n")
	if err := c.Reload(); err != nil {
		t.Fatalf("not reloaded: %v", err)
	}
	if got := c.graph().cfg.ShutdownTimeout.String(); got != "7s" {
		t.Errorf("shutdown_timeout is %s", got)
	}
	acl("<one")
	if err := client.Do(t.Context(), "CLIENT", "KILL", "USER", "rotated").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "connections are made with the new password", func() bool { return c.redis.Room(t.Context()) == nil })
}
