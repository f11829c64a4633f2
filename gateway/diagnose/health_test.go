package diagnose

import (
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestUpstreamOf: what calls show and what lists show make one state.
func TestUpstreamOf(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, tt := range []struct {
		name  string
		lists catalog.State
		calls upstream.State
		want  upstream.State
		stage string
	}{
		{"all well", catalog.StateUp, upstream.StateReady, upstream.StateReady, upstream.StageCall},
		{"a list does not come", catalog.StateFailing, upstream.StateReady, upstream.StateDegraded, operate.StageList},
		{"no list comes", catalog.StateDown, upstream.StateReady, upstream.StateDegraded, operate.StageList},
		{"lists are still to come", catalog.StateConnecting, upstream.StateReady, upstream.StateConnecting,
			upstream.StageCall},
		{"old lists are served", catalog.StateFailing, upstream.StateDown, upstream.StateDown, upstream.StageCall},
		{"of each user", catalog.StatePerUser, upstream.StateConnecting, upstream.StatePerUser, upstream.StageCall},
	} {
		h := UpstreamOf(catalog.UpstreamView{State: tt.lists, Since: late, LastError: "list"},
			upstream.Status{State: tt.calls, Since: early,
				Last: upstream.Failure{At: early, Stage: upstream.StageCall, Error: "call"}})
		if h.State != tt.want || h.LastFailure.Stage != tt.stage {
			t.Errorf("%s: %+v %+v", tt.name, h, h.LastFailure)
		}
	}
}
