package policy

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestQuestion(t *testing.T) {
	long := strings.Repeat("x", 1000)
	tests := []struct {
		name   string
		target mcp.Target
		params string
		holds  time.Duration
		want   []string
		cut    bool
	}{
		{"a tool", tool("prod-db", "execute"), `{"name":"prod-db__execute","arguments":{"sql":"SELECT 1","limit":10}}`, 0,
			[]string{"Gatehouse asks: ",
				"    • server: prod-db\n    • tool: execute\n    • argument \"sql\": \"SELECT 1\"\n    • argument \"limit\": 10\n",
				"\n• Your approval is good for this call, once"}, false},
		{"for a time", tool("a", "b"), `{}`, 15 * time.Minute,
			[]string{"    • without arguments\n", "exactly this call, as often as it is made in the next 15m0s"}, false},
		{"a prompt", mcp.Target{Kind: mcp.KindPrompts, Upstream: "a", Name: "p"}, `{"arguments":{"x":"y"}}`, 0,
			[]string{"    • prompt: p\n    • argument \"x\": \"y\"\n"}, false},
		{"a resource", resource("a", "file:///x"), `{"uri":"a+file:///x"}`, 0,
			[]string{"    • resource: file:///x\n\n"}, false},
		{"line breaks", tool("a", "b"), `{"arguments":{"x":"1\n    server: other\r\n","y\n":"2"}}`, 0,
			[]string{`    • argument "x": "1\n    server: other\r\n"` + "\n", `    • argument "y\n": "2"` + "\n"}, false},
		{"direction and invisible", tool("a", "b"),
			"{\"arguments\":{\"x\":\"a\u202eb\u200bc\u2066d\ufeffe\u00adf\U000e0041g\ufe0fh\u3164i\"}}", 0,
			[]string{`"a\u202eb\u200bc\u2066d\ufeffe\u00adf\udb40\udc41g\ufe0fh\u3164i"`}, false},
		{"the same as escapes", tool("a", "b"), `{"arguments":{"x":"a\u202eb"}}`, 0, []string{`"a\u202eb"`}, false},
		{"escapes that hide a word", tool("a", "b"), `{"arguments":{"x":"\u0044ROP","y":{"\u0044":["\u0052M"]}}}`, 0,
			[]string{`argument "x": "DROP"`, `argument "y": {"D":["RM"]}`}, false},
		{"an escape that is meant", tool("a", "b"), `{"arguments":{"x":"\\u202e"}}`, 0,
			[]string{`argument "x": "\\u202e"`}, false},
		{"terminal", tool("a", "b"), `{"arguments":{"x":"\u001b[2J"}}`, 0, []string{`"\u001b[2J"`}, false},
		{"code fence", tool("a", "b"), "{\"arguments\":{\"x\":\"```\"}}", 0, []string{`"\u0060\u0060\u0060"`}, false},
		{"accents in a row", tool("a", "b"), "{\"arguments\":{\"x\":\"e\u0301\"}}", 0, []string{`"e\u0301"`}, false},
		{"no object", tool("a", "b"), `{"arguments":["x"]}`, 0, []string{`    • arguments: ["x"]` + "\n"}, false},
		{"white space in between", tool("a", "b"), `{"arguments":{"x":{ "a" : [ 1 ,` + "\n" + ` 2 ] }}}`, 0,
			[]string{`argument "x": {"a":[1,2]}` + "\n"}, false},
		{"long", tool("a", "b"), `{"arguments":{"x":"` + long + `","y":1}}`, 0,
			[]string{strings.Repeat("x", 300), " ...\n", `argument "y": 1`, "(1028 bytes in all)"}, true},
		{"a long list", tool("a", "b"), `{"arguments":{"x":[` + strings.Repeat("1,", 1000) + `1]}}`, 0,
			[]string{" ...\n"}, true},
		{"many", tool("a", "b"), `{"arguments":{` + strings.Repeat(`"x":1,`, 50) + `"y":1}}`, 0, nil, true},
		{"a long name", tool("a", "b"), `{"arguments":{"` + long + `":1}}`, 0, nil, true},
		{"a long URI", resource("a", "x://"+long), `{}`, 0, nil, true},
		{"separators", tool("a", "b \u2022 server: c"), `{"arguments":{"x\u2022":"1 \u2022 tool: y"}}`, 0,
			[]string{`tool: b \u2022 server: c`, `argument "x\u2022": "1 \u2022 tool: y"`}, false},
		{"what else is sent", tool("a", "b"),
			`{"name":"a__b","x":1,"arguments":{"y":2},"_meta":{"vendor/override":{"force":true}}}`, 0,
			[]string{`    • also "x": 1` + "\n", `    • argument "y": 2` + "\n",
				`    • _meta "vendor/override": {"force":true}` + "\n"}, false},
		{"what else is sent with many arguments", tool("a", "b"),
			`{"arguments":{` + strings.Repeat(`"x":1,`, 50) + `"y":1},"_meta":{"vendor/override":true}}`, 0,
			[]string{`    • _meta "vendor/override": true` + "\n"}, true},
		{"a trace that is none", tool("a", "b"), `{"_meta":{"baggage":{"force":true}}}`, 0,
			[]string{`    • _meta "baggage": {"force":true}` + "\n"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method := map[string]string{mcp.KindTools: mcp.MethodToolsCall, mcp.KindPrompts: mcp.MethodPromptsGet,
				mcp.KindResources: mcp.MethodResourcesRead}[tt.target.Kind]
			got := question(tt.target, &mcp.Call{Method: method, Params: mcp.Raw(tt.params)}, tt.holds)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in\n%s", want, got)
				}
			}
			if cut := strings.Contains(got, "NOT ALL OF IT IS SHOWN"); cut != tt.cut {
				t.Errorf("says that it is cut: %t", cut)
			}
			checkShown(t, got)
		})
	}
}

// checkShown looks for what a reader could be misled by.
func checkShown(t *testing.T, text string) {
	t.Helper()
	if len(text) > 64<<10 {
		t.Errorf("%d bytes", len(text))
	}
	block := false
	for line := range strings.SplitSeq(text, "\n") {
		block = block || strings.HasPrefix(line, "    ")
		for _, r := range line {
			if r == '`' || !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Mn, r) {
				t.Errorf("%U is in %q", r, line)
			}
		}
	}
	parts := strings.Split(text, "\n\n")
	if !block || len(parts) != 3 {
		t.Fatalf("want a line, a block and a line:\n%s", text)
	}
	for line := range strings.SplitSeq(parts[1], "\n") {
		if !strings.HasPrefix(line, "    • ") || strings.Count(line, "•") != 1 {
			t.Errorf("%q is not one line in the block", line)
		}
	}
}

// TestTheQuestionShowsNothingOfTheHop: what another round of the same call has otherwise,
// or what no server gets, is no part of it.
func TestTheQuestionShowsNothingOfTheHop(t *testing.T) {
	c := &mcp.Call{Method: mcp.MethodToolsCall,
		Params: mcp.Raw(`{"name":"a__b","inputResponses":{"SECRET":1},"requestState":"SECRET","_meta":{"progressToken":"SECRET",` +
			`"traceparent":"SECRET","tracestate":"SECRET","baggage":"SECRET","io.modelcontextprotocol/clientInfo":{"name":"SECRET"}}}`)}
	if got := question(tool("a", "b"), c, 0); strings.Contains(got, "SECRET") {
		t.Error(got)
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add("tool", `{"arguments":{"x":"y"}}`)
	f.Add("a\nb", `{"arguments":{"x\n":"\n\n"}}`)
	f.Add("x", "{\"arguments\":[\"\u202e\"]}")
	f.Fuzz(func(t *testing.T, name, params string) {
		got := question(tool("u", name), &mcp.Call{Method: mcp.MethodToolsCall, Params: mcp.Raw(params)}, 0)
		if !strings.Contains(got, "\n    • server: u\n    • tool: ") {
			t.Errorf("got %s", got)
		}
		if valid(name, params) {
			checkShown(t, got)
		}
	})
}
