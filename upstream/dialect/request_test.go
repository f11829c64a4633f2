package dialect

import (
	"encoding/json"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

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

// FuzzRequest: whatever the client wrote, the request is one message that has the name that
// we chose, once, and the client's arguments byte for byte.
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
		call := &mcp.Call{Method: mcp.MethodToolsCall, Name: name, Params: m.Params}
		out := Request{ID: 7, Call: call, Rev: wire.NewestStateful()}
		if stateless {
			out.Rev, out.Answers, out.State, out.Meta = wire.Stateless(), true, "s", `"a":1`
		}
		body := out.Append(nil)
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
