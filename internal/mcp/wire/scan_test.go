package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
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

// TestLongStrings puts each kind of byte at each position of long strings, which the
// scanner reads in steps of several sizes.
func TestLongStrings(t *testing.T) {
	var lengths []int
	for _, around := range []int{8, shortRun * 8, shortRun*8 + 64, window, window + shortRun*8, 2*window + longRun*8} {
		for n := around - 9; n <= around+34; n++ {
			lengths = append(lengths, max(n, 0))
		}
	}
	bad := []string{"\x00", "\x1f", "\n", "\x7f", "\x80", "\x9f", "\xa0", "\xff", "é", "€", "\xc3", `\n`, `\"`, `\`,
		`"`, `\u00e9`, `\x`}
	for _, n := range lengths {
		for _, behind := range []int{0, 1, 7, 40, 300} {
			for _, b := range bad {
				text := `["` + strings.Repeat("a", n) + b + strings.Repeat("b", behind) + `"]`
				if s, got := scanned([]byte(text)); got != grammarOK([]byte(text)) {
					t.Fatalf("%q after %d bytes, %d behind it: scanned %v (%d: %s)", b, n, behind, got, s.at, s.why)
				}
			}
		}
	}
}

func BenchmarkScan(b *testing.B) {
	var dense bytes.Buffer
	for i := range 20000 {
		fmt.Fprintf(&dense, `{"id":%d,"name":"item %d","tags":["a","b"],"ok":true,"v":%d.5},`, i, i, i)
	}
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1<<20/45)
	lines := strings.Repeat(`2026-11-01 12:00:00 INFO \"something\" happened\n`, 1<<20/48)
	bodies := []struct{ name, body string }{
		{"call", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crm__export","arguments":{"q":"hello world","limit":10},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`},
		{"text", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`},
		{"escapes", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + lines + `"}]}}`},
		{"chinese", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` +
			strings.Repeat("敏捷的棕色狐狸跳过了懒狗。", 1<<20/39) + `"}]}}`},
		{"dense", `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":[` + dense.String() + `0]}}`},
	}
	for _, body := range bodies {
		data := []byte(body.body)
		b.Run(body.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Scan(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
