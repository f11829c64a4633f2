package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest/answers"
)

// depthOf is the deepest nesting of valid JSON.
func depthOf(data []byte) int {
	deepest, depth := 0, 0
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// grammarOK is the reference for the grammar that the scanner accepts.
func grammarOK(data []byte) bool {
	return json.Valid(data) && utf8.Valid(data) && depthOf(data) <= MaxDepth
}

// scanned reports whether the scanner accepts all of data as one value.
func scanned(data []byte) (*scanner, bool) {
	s := &scanner{b: data}
	i := s.value(s.space(0), 0)
	return s, i >= 0 && s.space(i) == len(data)
}

func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `{}0`, `[1,2.5e-3,-0,{"a":[true,false,null]}]`, "\"a\u00e9\u4e16\"", "\"\xff\"", `"\ud800"`, `"\u12g4"`,
		`{"a":1,}`, `[1,]`, `01`, `1.`, `-`, `1e`, "\ufeff{}", `"abcdefgh\n12345678"`, "\"abcdefg\x01\"", `nul`, `truefalse`,
		strings.Repeat("[", 256) + strings.Repeat("]", 256), strings.Repeat("[", 257) + strings.Repeat("]", 257),
		strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64), ` { "a" : [ ] , "b" : { } } `, `[[]`, `{"a"}`,
		`{"a":1]`, `[1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, got := scanned(data)
		if want := grammarOK(data); got != want {
			t.Fatalf("%q: scanned %v, want %v (%d: %s)", data, got, want, s.at, s.why)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 64 << 10, 1 << 20} {
		for _, shape := range answers.Shapes(size) {
			data := AppendResult(nil, mcp.Raw("1"), shape.Result)
			b.Run(fmt.Sprintf("%s/%d", shape.Name, size), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := ScanUpstream(data); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
