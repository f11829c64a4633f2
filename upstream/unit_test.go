package upstream

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// FuzzJudge: no answer to the probe causes a panic, and the result is either an era or an
// error.
func FuzzJudge(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}`, 200)
	f.Add(`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"data":{"supported":["2025-11-25"]}}}`, 400)
	f.Fuzz(func(t *testing.T, body string, status int) {
		m, err := wire.ScanUpstream([]byte(body))
		if err == nil && status != 200 {
			err = &transport.StatusError{Status: status, Message: m}
		}
		if e, err := judgeHTTP(m, err); (e == nil) == (err == nil) {
			t.Errorf("era %v, error %v", e, err)
		}
		if e, err := judgeStdio(m, nil); e == nil || err != nil {
			t.Errorf("era %v, error %v", e, err)
		}
	})
}
