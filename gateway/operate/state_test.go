package operate

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestStateOfPerUser: a server that each user reaches on their own does not connect for ever.
func TestStateOfPerUser(t *testing.T) {
	view := catalog.UpstreamView{State: catalog.StatePerUser}
	for was, want := range map[upstream.State]upstream.State{
		upstream.StateConnecting: upstream.StatePerUser, upstream.StateReady: upstream.StateReady,
		upstream.StateDown: upstream.StateDown,
	} {
		if got, _, _ := StateOf(view, upstream.Status{State: was}); got != want {
			t.Errorf("%s is %s, want %s", was, got, want)
		}
	}
}
