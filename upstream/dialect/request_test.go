package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestRequestInASpan: the server gets the trace context of our span, once, and not that of the
// client; everything else in _meta stays. Without a span, the client's goes on.
func TestRequestInASpan(t *testing.T) {
	const theirs = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b"`
	ours := &mcp.Trace{ID: "0af7651916cd43dd8448eb211c80319c",
		Parent: "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", State: "a=c"}
	const written = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01","tracestate":"a=c"`
	for _, tt := range []struct {
		name, params, meta, want string
		trace                    *mcp.Trace
	}{
		{"replaced", `{"_meta":{"x":1,` + theirs + `}}`, "", `"_meta":{` + written + `,"x":1}`, ours},
		{"added", `{"_meta":{"baggage":"k=v"}}`, `"y":2`, `"_meta":{"y":2,` + written + `,"baggage":"k=v"}`, ours},
		{"made", `{}`, "", `"_meta":{` + written + `}`, ours},
		{"not traced", `{"_meta":{` + theirs + `}}`, "", `"_meta":{` + theirs + `}`, &mcp.Trace{ID: ours.ID}},
		{"off", `{"_meta":{` + theirs + `}}`, "", `"_meta":{` + theirs + `}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Request{ID: 1, Call: &mcp.Call{Method: mcp.MethodToolsList, Params: mcp.Raw(tt.params), Trace: tt.trace},
				Rev: wire.Stateless(), Meta: tt.meta}
			if got := string(r.Encode()); !strings.Contains(got, tt.want) || strings.Count(got, "traceparent") != 1 {
				t.Errorf("%s\nwant %s", got, tt.want)
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
			out.Rev, out.Answers, out.Meta, call.Round = wire.Stateless(), true, `"a":1`, mcp.NewRound(mcp.FrameServer, "s")
		}
		body := out.Encode()
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
