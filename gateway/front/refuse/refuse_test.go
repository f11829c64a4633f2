package refuse

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func TestBody(t *testing.T) {
	limited := &mcp.Error{Code: mcp.CodeRateLimited, Message: "m", Data: mcp.Raw(`{"retry_after":7}`)}
	known := func(err error) *Refusal {
		r, ok := Session(fmt.Errorf("wrapped: %w", err))
		if !ok {
			t.Errorf("%v is not known", err)
		}
		return r
	}
	tests := []struct {
		name    string
		refusal *Refusal
		status  int
		header  http.Header
		body    string
	}{
		{"an HTTP method", Method("POST"), 405, http.Header{"Allow": {"POST"}},
			`{"jsonrpc":"2.0","error":{"code":-32600,"message":"this method is not served here: use POST","data":{"error_code":"GH-HTTP-METHOD"}}}`},
		{"an error that says what is wrong", Bad(mcp.Errorf(failure.InvalidParams, "m")), 400, http.Header{},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m","data":{"error_code":"GH-INVALID-PARAMS"}}}`},
		{"no such method", Bad(mcp.Errorf(failure.UnknownMethod, "m")), 404, http.Header{},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m","data":{"error_code":"GH-UNKNOWN-METHOD"}}}`},
		{"an error of ours", Bad(errors.New("secret")), 500, http.Header{},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error","data":{"error_code":"GH-INTERNAL"}}}`},
		{"a lost session", known(session.ErrNotFound), 404, http.Header{},
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the session does not exist: start a new one with initialize","data":{"error_code":"GH-SESSION-NOT-FOUND"}}}`},
		{"a store that is away", known(session.ErrUnavailable), 503, http.Header{"Retry-After": {"1"}},
			`{"jsonrpc":"2.0","id":1,"error":{"code":50303,"message":"sessions are not available now","data":{"retryable":true,"executed":"no","error_code":"GH-STORE-DOWN"}}}`},
		{"input out of step", Cut(), 400, http.Header{"Connection": {"close"}},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"Parse error: the body ended early","data":{"error_code":"GH-REQUEST-CUT"}}}`},
		{"a time to come back", &Refusal{Status: 429, Retry: true, Err: limited}, 429, http.Header{"Retry-After": {"7"}},
			`{"jsonrpc":"2.0","id":1,"error":{"code":42901,"message":"m","data":{"retry_after":7}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			body := tt.refusal.Body(h, mcp.Raw("1"))
			if tt.refusal.Status != tt.status || string(body) != tt.body || fmt.Sprint(h) != fmt.Sprint(tt.header) {
				t.Errorf("got %d %v\n%s, want %d %v\n%s", tt.refusal.Status, h, body, tt.status, tt.header, tt.body)
			}
		})
	}
	if r, ok := Session(errors.New("secret")); ok || r.Status != 500 {
		t.Errorf("an error that is not the store's: %v %t", r, ok)
	}
}

func TestReadable(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("secret"),
			`{"code":-32603,"message":"internal error","data":{"request_id":"c1","error_code":"GH-INTERNAL"}}`},
		{fmt.Errorf("wrapped: %w", mcp.Errorf(failure.InvalidParams, "m")),
			`{"code":-32602,"message":"m","data":{"error_code":"GH-INVALID-PARAMS"}}`},
		{&mcp.Error{Code: mcp.CodeUpstreamTimeout, Message: "m", Data: mcp.Raw(`{"upstream":"u"}`)},
			`{"code":50401,"message":"m","data":{"upstream":"u","request_id":"c1"}}`},
		{&mcp.Error{Code: mcp.CodeOverloaded, Message: "m", Data: mcp.Raw(`[]`)},
			`{"code":50302,"message":"m","data":{"request_id":"c1"}}`},
	} {
		e := Readable(wire.Stateless(), mcp.MethodToolsCall, "c1", tt.err)
		if got, _ := mcp.Raw(wire.AppendError(nil, nil, e)).Member("error"); string(got) != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}
