package upstream

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

func TestH163_Restarts(t *testing.T) {
	var r restarts
	now := time.Now()
	if pause, down := r.pause(now); pause > 0 || down {
		t.Errorf("before any crash: pause %s, down %v", pause, down)
	}
	last := time.Duration(0)
	for i := 1; i <= 5; i++ {
		r.crashed(now, 0)
		pause, down := r.pause(now)
		if pause < 800*time.Millisecond<<(i-1) || pause > 1200*time.Millisecond<<(i-1)+time.Millisecond || down != (i == 5) {
			t.Errorf("after crash %d: pause %s, down %v", i, pause, down)
		}
		last = pause
		now = now.Add(time.Second)
	}
	if pause, down := r.pause(now.Add(last)); pause > 0 || down {
		t.Errorf("after the back-off: pause %s, down %v", pause, down)
	}
	r.crashed(now, time.Hour)
	if pause, down := r.pause(now); pause > 1300*time.Millisecond || down {
		t.Errorf("after a long life: pause %s, down %v", pause, down)
	}
}

func TestTraceparent(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"sound", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true},
		{"later version", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", true},
		{"version 00 with more", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", false},
		{"version ff", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
		{"no trace", "00-00000000000000000000000000000000-b7ad6b7169203331-01", false},
		{"no span", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false},
		{"upper case", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false},
		{"empty", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := validTraceparent(tt.value); got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// FuzzRequest: whatever the client wrote, the request is one message that has the
// name that we decided, once, and its arguments byte for byte.
func FuzzRequest(f *testing.F) {
	for _, params := range []string{
		`{}`, `{"name":"x__a","arguments":{"b":1.0,"a":[{}]}}`, ` { "arguments" : null , "_meta" : { } } `,
		`{"_meta":{"progressToken":"t","io.modelcontextprotocol/x":1,"v":{"a":"b"}},"requestState":"s","inputResponses":{}}`,
		`{"_meta":5,"name":{"a":1}}`, `{"name":"a","name":"b"}`, `{"_meta":{},"_meta":{}}`,
	} {
		f.Add(params, "native", true)
	}
	f.Fuzz(func(t *testing.T, params, name string, stateless bool) {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`))
		if err != nil || m.Params == nil || wire.CheckObject(m.Params, "name", "_meta") != nil {
			return // front refuses it
		}
		call := &mcp.Call{Method: mcp.MethodToolsCall, Name: name, Params: m.Params, State: "s"}
		out := outgoing{id: 7, call: call, rev: wire.NewestStateful()}
		if stateless {
			out.rev, out.answers, out.meta = wire.Stateless(), true, `"a":1`
		}
		body := out.appendRequest(nil)
		if !json.Valid(body) {
			t.Fatalf("not JSON: %s", body)
		}
		sent, err := wire.Scan(body)
		if err != nil || string(sent.ID) != "7" {
			t.Fatalf("%v: %s", err, body)
		}
		names, wantArguments := 0, mcp.Raw(nil)
		sent.Params.Each(func(member string, value mcp.Raw) bool {
			if member == "name" {
				names++
				if string(value) != string(mcp.String(name)) {
					t.Errorf("name %s, want %q", value, name)
				}
			}
			return true
		})
		if names != 1 {
			t.Errorf("%d names: %s", names, body)
		}
		wantArguments, _ = m.Params.Member("arguments")
		if got, _ := sent.Params.Member("arguments"); string(got) != string(wantArguments) {
			t.Errorf("arguments %s, want %s", got, wantArguments)
		}
		if _, has := sent.Params.Member("requestState"); has != stateless {
			t.Errorf("requestState sent: %v", has)
		}
	})
}

// FuzzJudge: no answer to the probe panics, and an era is concluded or an error given.
func FuzzJudge(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}`, 200)
	f.Add(`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"data":{"supported":["2025-11-25"]}}}`, 400)
	f.Fuzz(func(t *testing.T, body string, status int) {
		m, err := transport.Scan([]byte(body))
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
