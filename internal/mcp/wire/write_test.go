package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestAppend(t *testing.T) {
	odd := mcp.Raw(`"\u0000<b>"`)
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"request", AppendRequest(nil, mcp.Raw("1.50"), "tools/call", mcp.Raw(`{"a":1e400}`)),
			`{"jsonrpc":"2.0","id":1.50,"method":"tools/call","params":{"a":1e400}}`},
		{"request without params", AppendRequest(nil, odd, "ping", nil),
			`{"jsonrpc":"2.0","id":"\u0000<b>","method":"ping"}`},
		{"notification", AppendNotification([]byte("x"), "notifications/x", mcp.Raw(`{}`)),
			`x{"jsonrpc":"2.0","method":"notifications/x","params":{}}`},
		{"a result has the id as written", AppendResult(nil, mcp.Raw(`"1"`), mcp.Raw(`{"a":[]}`)),
			`{"jsonrpc":"2.0","id":"1","result":{"a":[]}}`},
		{"empty result", AppendResult(nil, mcp.Raw(`1`), nil), `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"error", AppendError(nil, mcp.Raw("1"), &mcp.Error{Code: -32602, Message: "a\"b\n", Data: mcp.Raw(`{"uri":"x"}`)}),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"a\"b\n","data":{"uri":"x"}}}`},
		{"error without id", AppendError(nil, nil, mcp.Errorf(failure.Parse, "no")),
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no","data":{"error_code":"GH-PARSE"}}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if string(test.got) != test.want {
				t.Errorf("got  %s\nwant %s", test.got, test.want)
			}
		})
	}
}

func TestReadError(t *testing.T) {
	const bad = mcp.CodeUpstreamBadAnswer
	tests := []struct {
		name, in string
		want     mcp.Error
	}{
		{"plain", `{"code":-32602,"message":"Unknown tool: x"}`, mcp.Error{Code: -32602, Message: "Unknown tool: x"}},
		{"with data", `{"message":"m","data":[1.0],"code":7}`, mcp.Error{Code: 7, Message: "m", Data: mcp.Raw(`[1.0]`)}},
		{"without message", `{"code":7}`, mcp.Error{Code: 7, Message: "the server gave no message"}},
		{"without code", `{"message":"m"}`, mcp.Error{Code: bad, Message: "m", Data: mcp.Raw(`{"error":{"message":"m"}}`)}},
		{"a float as code", `{"code":1.5,"message":"m"}`,
			mcp.Error{Code: bad, Message: "m", Data: mcp.Raw(`{"error":{"code":1.5,"message":"m"}}`)}},
		{"a huge code", `{"code":100000000000000000000,"message":"m"}`,
			mcp.Error{Code: bad, Message: "m", Data: mcp.Raw(`{"error":{"code":100000000000000000000,"message":"m"}}`)}},
		{"a string as code", `{"code":"E1","message":"m"}`,
			mcp.Error{Code: bad, Message: "m", Data: mcp.Raw(`{"error":{"code":"E1","message":"m"}}`)}},
		{"a string", `"boom"`, mcp.Error{Code: bad, Message: "the server gave no message",
			Data: mcp.Raw(`{"error":"boom"}`)}},
		{"nothing", ``, mcp.Error{Code: bad, Message: "the server gave no message", Data: mcp.Raw(`{"error":null}`)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := []byte(test.in)
			got := ReadError(in)
			for i := range in {
				in[i] = '#' // the error must not alias its input
			}
			if got.Code != test.want.Code || got.Message != test.want.Message || string(got.Data) != string(test.want.Data) {
				t.Errorf("got %+v, want %+v", *got, test.want)
			}
		})
	}
}

func TestReadAll(t *testing.T) {
	tests := []struct {
		name      string
		size      int
		hint, max int64
		bad       bool
	}{
		{"nothing", 0, 0, 10, false},
		{"no hint", 3000, -1, 4000, false},
		{"the right hint", 3 << 20, 3 << 20, 4 << 20, false},
		{"a hint too small", 300000, 10, 1 << 20, false},
		{"a hint too large", 10, 1 << 20, 1 << 20, false},
		{"just the limit", 1000, 1000, 1000, false},
		{"above the limit without a hint", 1001, -1, 1000, true},
		{"above the limit by its hint", 10, 1001, 1000, true},
		{"no room at all", 1, 0, 0, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Repeat("0123456789", test.size/10+1)[:test.size]
			got, err := ReadAll(strings.NewReader(text), test.hint, test.max)
			if test.bad {
				if !errors.Is(err, ErrTooLarge) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || string(got) != text {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
}
