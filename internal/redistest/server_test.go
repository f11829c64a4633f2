package redistest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestProgram: GATEHOUSE_TEST_REDIS decides which program runs, which lets the tests run
// with Valkey. A path that does not exist fails; no other program is used instead.
func TestProgram(t *testing.T) {
	usual := executable(t)
	named := filepath.Join(t.TempDir(), "another-server")
	if err := os.Symlink(usual, named); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GATEHOUSE_TEST_REDIS", named)
	if got := executable(t); got != named {
		t.Errorf("%s runs, %s was named", got, named)
	}
}

// executable returns the path of the program that runs.
func executable(t *testing.T) string {
	t.Helper()
	client := redistest.Start(t).Client()
	defer client.Close()
	info, err := client.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "\r\nexecutable:")
	path, _, _ := strings.Cut(after, "\r\n")
	return path
}
