package stdio_test

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/upstream/transport/stdio/sandbox"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	fake.Main(m, nil)
}
