package fake

import (
	"os"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// roleEnv lets a test binary be a stdio server: it starts itself with a role.
const roleEnv = "UPSTREAM_TEST_ROLE"

// Main runs the tests of a package, which must leave no goroutine behind. With a role it runs a
// stdio server instead: one of the package's own, or a faulty one.
func Main(m *testing.M, programs map[string]func()) {
	role := os.Getenv(roleEnv)
	switch program := programs[role]; {
	case role == "":
		mcptest.VerifyMain(m)
	case role == "carries lines":
		_ = mcptest.Carry(os.Getenv("ADDRESS"), os.Stdin, os.Stdout) // one end always closes in the end
	case program != nil:
		program()
	default:
		playFaulty(role)
	}
}

// Command is the configuration that runs this binary as a stdio server.
func Command(t *testing.T, role string) upstream.Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return upstream.Config{Name: "stdio", Command: []string{self}, Env: map[string]mcp.Secret{
		roleEnv:  mcp.Secret(role),
		"GORACE": "atexit_sleep_ms=0", // otherwise each process takes a second to end
	}}
}
