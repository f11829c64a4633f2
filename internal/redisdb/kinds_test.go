package redisdb_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// TestKinds: each kind of keys can be told from all others, and docs/upgrading.md has it with its version.
func TestKinds(t *testing.T) {
	page, err := os.ReadFile("../../docs/upgrading.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range redisdb.Kinds() {
		if found, ok := redisdb.KindOf(k.Prefix + "x"); !ok || found != k {
			t.Errorf("%s is taken for %s", k.Prefix, found.Prefix)
		}
		if row := fmt.Sprintf("| `%s` | %d | %s |", k.Prefix, k.Version, k.What); !strings.Contains(string(page), row) {
			t.Errorf("docs/upgrading.md has no row %s", row)
		}
	}
}
