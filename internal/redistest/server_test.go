package redistest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestProgram: what GATEHOUSE_TEST_REDIS names is what runs, for it is how the tests come
// to run over Valkey; and one that is not there is not replaced by another.
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

// executable is the path of the program that runs.
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
