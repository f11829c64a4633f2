package observe_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// BenchmarkRecording is what a record costs a call: nothing without a sink; and with a file, in
// which every call waits for room, so that writing counts, too.
func BenchmarkRecording(b *testing.B) {
	reply := &mcp.Reply{Result: mcp.Raw(`{}`)}
	h := mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return reply, nil })
	call := &mcp.Call{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Method: mcp.MethodToolsCall, Name: "crm__export",
		Session: "alice:~1",
		Params:  mcp.Raw(`{"name":"crm__export","arguments":{"from":"2026-01-01","to":"2026-02-01"}}`)}
	for name, cfg := range map[string]audit.Config{
		"off": {},
		"file": {OnFull: audit.OnFullBlock, Sinks: []audit.Sink{{Type: audit.TypeFile,
			Path: filepath.Join(b.TempDir(), "audit.jsonl"), MaxBytes: 1 << 30}}},
	} {
		b.Run(name, func(b *testing.B) {
			journal, err := audit.New(cfg, audit.Deps{})
			if err != nil {
				b.Fatal(err)
			}
			defer journal.Close(context.Background())
			observed := observer(slog.New(slog.DiscardHandler), nil, &observe.Recorder{
				Journal: journal, RuleAt: func(string) string { return "" }, Keeps: func(string) *record.Keep { return nil },
				Server: func(string) (string, bool) { return "", false },
			})(h)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := observed.Handle(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
