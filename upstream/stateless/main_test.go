package stateless_test

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestMain(m *testing.M) { fake.Main(m, nil) }
