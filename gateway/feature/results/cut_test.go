package results

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func text(s string) string {
	return string(mcp.Object("type", mcp.String("text"), "text", mcp.String(s)))
}

func TestCut(t *testing.T) {
	line := strings.Repeat("x", 79) + "\n"
	image := func(bytes int) string {
		return fmt.Sprintf(`{"type":"image","mimeType":"image/png","data":"%s"}`, strings.Repeat("A", bytes))
	}
	for _, tt := range []struct {
		name    string
		content string
		most    int
		want    []string
		missing int
	}{
		{"it fits", "[" + text("a") + " ,\n" + text("b") + "]", 1000, []string{text("a"), text("b")}, 0},
		{"at the end of a line", "[" + text(strings.Repeat(line, 10)) + "]", 300, []string{text(strings.Repeat(line, 3))}, 0},
		{"after a character", "[" + text(strings.Repeat("x", 1000)) + "]", 300,
			[]string{text(strings.Repeat("x", 300-len(text(""))-2))}, 0},
		{"a line that ends too early", "[" + text("a\n"+strings.Repeat("x", 1000)) + "]", 300,
			[]string{text("a\n" + strings.Repeat("x", 300-len(text(""))-5))}, 0},
		{"not within a character", "[" + text(strings.Repeat("€", 100)) + "]", 200,
			[]string{text(strings.Repeat("€", (200-2-len(text("")))/3))}, 0},
		{"not within an escape", `[{"type":"text","text":"` + strings.Repeat(`\u20ac`, 100) + `"}]`, 130,
			[]string{`{"type":"text","text":"` + strings.Repeat(`\u20ac`, (130-2-len(text("")))/6) + `"}`}, 0},
		{"not within a pair of escapes", `[{"type":"text","text":"` + strings.Repeat(`\ud83d\ude00`, 100) + `"}]`, 130,
			[]string{`{"type":"text","text":"` + strings.Repeat(`\ud83d\ude00`, (130-2-len(text("")))/12) + `"}`}, 0},
		{"nothing after a text that was cut", "[" + text("a") + "," + text(strings.Repeat(line, 10)) + "," + text("b") + "]",
			400, []string{text("a"), text(strings.Repeat(line, 4))}, 1},
		{"an image goes whole, and what follows stays", "[" + text("before") + "," + image(1000) + "," + text("after") + "]",
			200, []string{text("before"), text("after")}, 1},
		{"other members stay", `[{"annotations":{"priority":1},"type":"text","text":"` + strings.Repeat("x", 1000) +
			`","_meta":{"a":1}}]`, 200,
			[]string{`{"annotations":{"priority":1},"type":"text","text":"` +
				strings.Repeat("x", 198-len(`{"annotations":{"priority":1},"type":"text","text":"","_meta":{"a":1}}`)) +
				`","_meta":{"a":1}}`}, 0},
		{"too little room for a text", "[" + text(strings.Repeat("y", 150)) + "," + text(strings.Repeat("x", 1000)) + "]",
			200, []string{text(strings.Repeat("y", 150))}, 1},
		{"a text that is none", `[{"type":"text","text":["` + strings.Repeat("x", 1000) + `"]},` + text("b") + "]", 200,
			[]string{text("b")}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := cut(mcp.Raw(tt.content), tt.most)
			var got []string
			for _, block := range b.blocks {
				got = append(got, string(block))
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") || b.missing != tt.missing {
				t.Errorf("%d missing of\n%s\nwant %d of\n%s", b.missing, strings.Join(got, "\n"), tt.missing,
					strings.Join(tt.want, "\n"))
			}
		})
	}
}

// FuzzCut: whatever the content, what is left is valid, not too large, and its texts are the
// beginnings of the texts of the whole, in their order.
func FuzzCut(f *testing.F) {
	for _, seed := range []string{
		"[" + text("one\ntwo") + "]",
		`[{"type":"text","text":"\ud83d\ude00\u00e9\\\"\/\b"},{"type":"image","mimeType":"image/png","data":"AAAA"}]`,
		`[ {"te\u0078t":"a","text":"b","text":"c","type":"text"} , {"type":"resource","resource":{"uri":"a:b","text":"t"}}, 1, null, [] ]`,
		`[{"type":"text","text":"é€😀"},{"type":"resource_link","uri":"a:b","name":"n"}]`,
	} {
		for _, most := range []uint16{2, 70, 100, 1000} {
			f.Add(seed, most)
			f.Add(strings.Replace(seed, `"text":"`, `"text":"`+strings.Repeat(`long \n`, 100), 1), most)
		}
	}
	f.Fuzz(func(t *testing.T, content string, most uint16) {
		if !json.Valid([]byte(content)) || content[0] != '[' || most < 2 {
			return
		}
		b := cut(mcp.Raw(content), int(most))
		left := mcp.Array(b.blocks...)
		if !json.Valid(left) {
			t.Fatalf("%s\nbecomes\n%s", content, left)
		}
		if len(left) > int(most) {
			t.Fatalf("%d bytes are more than %d: %s", len(left), most, left)
		}
		if missing, all := strings.Repeat("x", b.missing), b.all; b.short && len(missing)+len(b.blocks) != all {
			t.Fatalf("%d blocks and %d missing of %d", len(b.blocks), b.missing, all)
		}
		whole := texts(mcp.Raw(content))
		for _, part := range texts(left) {
			for len(whole) > 0 && !strings.HasPrefix(whole[0], part) {
				whole = whole[1:]
			}
			if len(whole) == 0 {
				t.Fatalf("%q is the beginning of no text in %s", part, content)
			}
			whole = whole[1:]
		}
		uri := mcp.ResultScheme + "x"
		_, result := readWhole(wholeOf(uri, mcp.Target{Upstream: "u", Name: "\n"}, mcp.Raw(content), nil))
		if !json.Valid(result) {
			t.Fatalf("%s\nis kept as\n%s", content, result)
		}
		if added := note(uri, mcp.Raw(content), b, mcp.Raw("{}"), 0); !json.Valid(added) || len(added) > 512 {
			t.Fatalf("note: %s", added)
		}
	})
}

// texts returns the texts of text blocks, as a client reads them.
func texts(content mcp.Raw) (all []string) {
	content.Elements(func(block mcp.Raw) bool {
		if text, ok := textOf(block); ok {
			all = append(all, text.Text())
		}
		return true
	})
	return all
}
