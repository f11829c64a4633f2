package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// codeOf returns the JSON-RPC code of an error, 0 without an *mcp.Error.
func codeOf(err error) int {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return e.Code
	}
	return 0
}

// show formats a message for comparison.
func show(m Message) string {
	kind := []string{"none", "request", "notification", "response"}[m.Kind]
	out := fmt.Sprintf("%s id=%s", kind, m.ID)
	for _, part := range []struct{ name, text string }{
		{"method", m.Method}, {"params", string(m.Params)}, {"result", string(m.Result)}, {"error", string(m.Error)},
	} {
		if part.text != "" {
			out += " " + part.name + "=" + part.text
		}
	}
	return out
}

func TestScanAccepts(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`,
			`request id=1 method=tools/call params={"name":"x"}`},
		{"any order and white space",
			" {\t\"params\" : {} ,\r\n \"method\":\"ping\",\"id\" : \"a\" , \"jsonrpc\":\"2.0\" }\n",
			`request id="a" method=ping params={}`},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`notification id= method=notifications/initialized`},
		{"null params are none", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, `request id=1 method=ping`},
		{"response", `{"jsonrpc":"2.0","id":"g1","result":{"action":"accept"}}`,
			`response id="g1" result={"action":"accept"}`},
		{"error", `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}`,
			`response id=7 error={"code":-1,"message":"no"}`},
		{"error with a null id", `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}`,
			`response id= error={"code":-1,"message":"no"}`},
		{"error without id", `{"jsonrpc":"2.0","error":{"code":-1,"message":"no"}}`,
			`response id= error={"code":-1,"message":"no"}`},
		{"escaped method", `{"jsonrpc":"2.0","id":1,"method":"tools\/c\u0061ll"}`, `request id=1 method=tools/call`},
		{"numbers keep their text",
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1e400,"b":12345678901234567890.123,"c":-0.0}}`,
			`request id=1 method=m params={"a":1e400,"b":12345678901234567890.123,"c":-0.0}`},
		{"a fractional id", `{"jsonrpc":"2.0","id":1.50,"method":"m"}`, `request id=1.50 method=m`},
		{"an id with an exponent", `{"jsonrpc":"2.0","id":1e3,"method":"m"}`, `request id=1e3 method=m`},
		{"an id beyond 2^53", `{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}`, `request id=9007199254740993 method=m`},
		{"the longest id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", MaxID-2) + `","method":"m"}`,
			`request id="` + strings.Repeat("i", MaxID-2) + `" method=m`},
		{"an empty id", `{"jsonrpc":"2.0","id":"","method":"m"}`, `request id="" method=m`},
		{"an odd id", `{"jsonrpc":"2.0","id":"\u0000<b>\"'","method":"m"}`, `request id="\u0000<b>\"'" method=m`},
		{"a lone surrogate escape in a value", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\ud800"}}`,
			`request id=1 method=m params={"a":"\ud800"}`},
		{"unknown members", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":{"y":[1]}},"future":{"a":[]}}`,
			`request id=1 method=m params={"x":{"y":[1]}}`},
		{"markup and line separators",
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"<script>\u2028\"}}",
			"request id=1 method=m params={\"a\":\"<script>\u2028\"}"},
		{"the longest method", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", MaxMethod) + `"}`,
			`request id=1 method=` + strings.Repeat("m", MaxMethod)},
		{"the deepest nesting", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":` +
			strings.Repeat("[", MaxDepth-2) + strings.Repeat("]", MaxDepth-2) + `}}`,
			`request id=1 method=m params={"a":` + strings.Repeat("[", MaxDepth-2) + strings.Repeat("]", MaxDepth-2) + `}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := Scan([]byte(test.in))
			if err != nil || show(m) != test.want {
				t.Errorf("got %s, %v\nwant %s", show(m), err, test.want)
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	request := func(members string) string { return `{"jsonrpc":"2.0","id":1,"method":"m"` + members + `}` }
	const parse, invalid, params = mcp.CodeParse, mcp.CodeInvalidRequest, mcp.CodeInvalidParams
	tests := []struct {
		name, in string
		code     int
		id       string
	}{
		{"two ids", `{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`, parse, ""},
		{"two methods", request(`,"method":"n"`), parse, "1"},
		{"two params", request(`,"params":{},"params":{}`), parse, "1"},
		{"two unknown members", request(`,"x":1,"x":1`), parse, "1"},
		{"escaped name", `{"jsonrpc":"2.0","id":1,"\u006dethod":"m"}`, parse, "1"},
		{"name in another case", `{"jsonrpc":"2.0","id":1,"Method":"m"}`, parse, "1"},
		{"twin in another case", request(`,"METHOD":"n"`), parse, "1"},
		{"twin in another case before it", `{"METHOD":"n","jsonrpc":"2.0","id":1,"method":"m"}`, parse, "1"},
		{"twin by Unicode folding before it", `{"paramſ":{},"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, parse, "1"},
		{"twin by Unicode folding", request(`,"paramſ":{}`), parse, "1"},
		{"too deep", request(`,"params":{"a":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`),
			parse, "1"},
		{"a million deep", strings.Repeat("[", 1e6), parse, ""},
		{"a million deep in params", request(`,"params":` + strings.Repeat(`{"a":`, 1e6)), parse, "1"},
		{"invalid UTF-8", request(",\"params\":{\"a\":\"\xff\"}"), parse, "1"},
		{"overlong UTF-8", request(",\"params\":{\"a\":\"\xc0\xaf\"}"), parse, "1"},
		{"a surrogate in UTF-8", request(",\"params\":{\"a\":\"\xed\xa0\x80\"}"), parse, "1"},
		{"invalid UTF-8 in a name", request(",\"params\":{\"\xff\":1}"), parse, "1"},
		{"a lone surrogate in the method", `{"jsonrpc":"2.0","id":1,"method":"m\ud800"}`, invalid, "1"},
		{"byte order mark", "\ufeff" + request(""), parse, ""},
		{"UTF-16", "{\x00\"\x00", parse, ""},
		{"NaN", request(`,"params":{"a":NaN}`), parse, "1"},
		{"Infinity", request(`,"params":{"a":-Infinity}`), parse, "1"},
		{"01", request(`,"params":{"a":01}`), parse, "1"},
		{"+1", request(`,"params":{"a":+1}`), parse, "1"},
		{"1.", request(`,"params":{"a":1.}`), parse, "1"},
		{".5", request(`,"params":{"a":.5}`), parse, "1"},
		{"0x10", request(`,"params":{"a":0x10}`), parse, "1"},
		{"1e", request(`,"params":{"a":1e+}`), parse, "1"},
		{"trailing garbage", request("") + "0", parse, "1"},
		{"two documents", request("") + request(""), parse, "1"},
		{"a comment", request(`/* */`), parse, "1"},
		{"trailing comma", request(`,`), parse, "1"},
		{"trailing comma inside", request(`,"params":{"a":[1,]}`), parse, "1"},
		{"cut short", `{"jsonrpc":"2.0","id":1,"params":{"a":"b`, parse, "1"},
		{"empty", "", parse, ""},
		{"white space", " \n", parse, ""},
		{"a string", `""`, invalid, ""},
		{"null", `null`, invalid, ""},
		{"half of null", `nul`, parse, ""},
		{"an array", `[]`, invalid, ""},
		{"an empty object", `{}`, invalid, ""},
		{"a control character", request(",\"params\":{\"a\":\"b\x1fc\"}"), parse, "1"},
		{"another white space", "\v" + request(""), parse, ""},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"m"}`, invalid, ""},
		{"a long number as id", `{"jsonrpc":"2.0","id":` + strings.Repeat("1", 300) + `,"method":"m"}`, invalid, ""},
		{"a long string as id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("1", 1<<16) + `","method":"m"}`, invalid, ""},
		{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"m"}`, invalid, ""},
		{"true as id", `{"jsonrpc":"2.0","id":true,"method":"m"}`, invalid, ""},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"m"}]`, invalid, ""},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, invalid, "1"},
		{"neither", `{"jsonrpc":"2.0","id":1}`, invalid, "1"},
		{"method and result", request(`,"result":{}`), invalid, "1"},
		{"method and error", request(`,"error":{}`), invalid, "1"},
		{"a result without id", `{"jsonrpc":"2.0","result":{}}`, invalid, ""},
		{"a result with a null id", `{"jsonrpc":"2.0","id":null,"result":{}}`, invalid, ""},
		{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"m"}`, invalid, "1"},
		{"version as a number", `{"jsonrpc":2.0,"id":1,"method":"m"}`, invalid, "1"},
		{"no version", `{"id":1,"method":"m"}`, invalid, "1"},
		{"no version on a response", `{"id":1,"result":{}}`, invalid, "1"},
		{"an array as params", request(`,"params":[]`), params, "1"},
		{"a string as params", request(`,"params":"x"`), params, "1"},
		{"a number as params of a notification", `{"jsonrpc":"2.0","method":"m","params":1}`, params, ""},
		{"a long method", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", MaxMethod+1) + `"}`, invalid, "1"},
		{"a method of a million", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 1e6) + `"}`, invalid, "1"},
		{"a newline in the method", `{"jsonrpc":"2.0","id":1,"method":"a\nb"}`, invalid, "1"},
		{"an escape sequence in the method", `{"jsonrpc":"2.0","id":1,"method":"a\u001b[31m"}`, invalid, "1"},
		{"an empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, invalid, "1"},
		{"a number as method", `{"jsonrpc":"2.0","id":1,"method":1}`, invalid, "1"},
		{"a notification with an id", `{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`, invalid, "1"},
		{"too many members", `{"jsonrpc":"2.0","id":1,"method":"m"` + manyMembers(MaxMembers) + `}`, parse, "1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := Scan([]byte(test.in))
			if codeOf(err) != test.code || string(m.ID) != test.id {
				t.Errorf("got %v with id %s, want %d with id %s", err, m.ID, test.code, test.id)
			}
		})
	}
}

// manyMembers returns n more members of an object.
func manyMembers(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `,"x%d":0`, i)
	}
	return out.String()
}

func TestScanUpstream(t *testing.T) {
	tests := []struct {
		name, in, want string
		code           int
	}{
		{name: "an error with a null id", in: `{"jsonrpc":"2.0","id":null,"error":{"code":1}}`,
			want: `response id= error={"code":1}`},
		{name: "an error without id", in: `{"jsonrpc":"2.0","error":{"code":1}}`, want: `response id= error={"code":1}`},
		{name: "the error wins over the result", in: `{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":{"code":1}}`,
			want: `response id=1 error={"code":1}`},
		{name: "a null error beside a result is none", in: `{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":null}`,
			want: `response id=1 result={"a":1}`},
		{name: "a null result beside an error is none", in: `{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1}}`,
			want: `response id=1 error={"code":1}`},
		{name: "a null result passes", in: `{"jsonrpc":"2.0","id":1,"result":null}`, want: `response id=1 result=null`},
		{name: "neither", in: `{"jsonrpc":"2.0","id":1}`, code: mcp.CodeInvalidRequest},
		{name: "a login page", in: `<!DOCTYPE html>`, code: mcp.CodeParse},
		{name: "nothing", in: ``, code: mcp.CodeParse},
		{name: "invalid UTF-8", in: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}", code: mcp.CodeParse},
		{name: "a request", in: `{"jsonrpc":"2.0","id":0,"method":"roots/list"}`, want: `request id=0 method=roots/list`},
		{name: "a notification", in: `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`,
			want: `notification id= method=notifications/progress params={"progress":1}`},
		{name: "a request with a null id", in: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, code: mcp.CodeInvalidRequest},
		{name: "two results", in: `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, code: mcp.CodeParse},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := ScanUpstream([]byte(test.in))
			if codeOf(err) != test.code || err == nil && show(m) != test.want {
				t.Errorf("got %s, %v\nwant %s, %d", show(m), err, test.want, test.code)
			}
		})
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	in := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,"é"]}}}`)
	if n := testing.AllocsPerRun(100, func() { _, _ = Scan(in) }); n != 0 {
		t.Errorf("Scan makes %v allocations", n)
	}
	params := mcp.Raw(`{"name":"x","arguments":{"a":[1]},"_meta":{"k":1}}`)
	if n := testing.AllocsPerRun(100, func() { _ = CheckObject(params, "name", "_meta", "arguments") }); n != 0 {
		t.Errorf("CheckObject makes %v allocations", n)
	}
}

// FuzzScan compares Scan with encoding/json.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/x"}`,
		`{"jsonrpc":"2.0","id":"a","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{}}`, `{}0`, `[{}]`, `{"id":1,"ID":2}`,
		`{"jsonrpc":"2.0","id":1,"id":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = ScanUpstream(data)
		PeekID(data)
		_, _, _ = ScanBatch(data)
		m, err := Scan(data)
		if err != nil {
			if code := codeOf(err); code != mcp.CodeParse && code != mcp.CodeInvalidRequest && code != mcp.CodeInvalidParams {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		if !grammarOK(data) {
			t.Fatalf("%q is accepted", data)
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]mcp.Raw{"id": m.ID, "params": m.Params, "result": m.Result, "error": m.Error} {
			if member := want[name]; !bytes.Equal(got, member) && !(got == nil && string(member) == "null") {
				t.Fatalf("%q: %s is %q, want %q", data, name, got, member)
			}
		}
		var method string
		if text, ok := want["method"]; ok {
			if err := json.Unmarshal(text, &method); err != nil {
				t.Fatal(err)
			}
		}
		if method != m.Method {
			t.Fatalf("%q: method %q, want %q", data, m.Method, method)
		}
	})
}

// TestParts: a message is read from its parts as from the text that it came in.
func TestParts(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`,
		`{"jsonrpc":"2.0","id":"a","method":"a\"b"}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"a":[1]}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}`,
	} {
		m, err := ScanUpstream([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Join(m.Parts(), nil); string(got) != text {
			t.Errorf("got %s, want %s", got, text)
		}
	}
}
