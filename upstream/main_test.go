package upstream_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest"
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
	case "stateful", "stateless":
		(&upstreamtest.Server{Stateful: role == "stateful"}).ServeStdio(os.Stdin, os.Stdout)
	case "gossip":
		playGossip()
	case "sdk":
		playSDK()
	default:
		playHazard(role)
	}
}
