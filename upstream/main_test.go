package upstream_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// roleEnv lets the test binary be a stdio server: it starts itself with a role.
const roleEnv = "UPSTREAM_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		play(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// play runs a stdio server.
func play(role string) {
	switch role {
	case "carries lines":
		_ = mcptest.Carry(os.Getenv("ADDRESS"), os.Stdin, os.Stdout) // one end always closes in the end
	case "gossip":
		playGossip()
	case "sdk":
		playSDK()
	default:
		playHazard(role)
	}
}
