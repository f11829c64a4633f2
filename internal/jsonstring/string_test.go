package jsonstring

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkText compares Check and Skip with encoding/json for a string with this text inside. Something
// stands before and behind the string.
func checkText(t *testing.T, text string, before int) {
	t.Helper()
	b := []byte(strings.Repeat("[", before) + `"` + text + `"` + strings.Repeat("]", 70))
	want := json.Valid(b[before:before+len(text)+2]) && utf8.ValidString(text)
	end, why := Check(b, before)
	if got := why == "" && end == before+len(text)+2; got != want {
		t.Fatalf("%q after %d bytes: valid is %v; Check says %d %q", text, before, want, end, why)
	}
	if end < 0 || end > len(b) {
		t.Fatalf("%q after %d bytes: %d is outside of it", text, before, end)
	}
	if skipped := Skip(b, before); want && skipped != end || skipped > len(b) {
		t.Fatalf("%q after %d bytes: Skip goes to %d", text, before, skipped)
	}
}

// TestLongStrings puts each kind of text at each position of long strings, which are read in steps of
// several sizes.
func TestLongStrings(t *testing.T) {
	parts := []string{`\n`, `\"`, `\\`, `\\\"`, `\`, `"`, `\u00e9`, `\uD83D\ude00`, `\u00g9`, `\u00`, `\u00\n`, `\u\u0000`,
		`\x`, `\é`, "é", "€", "😀", "\xc3", "\xe2\x82", "\xf0\x9f\x98",
		"\xed\xa0\x80", "\x80\x80", "\xc3\xa9\x80", "\xf4\x90\x80\x80"}
	for c := range 256 {
		parts = append(parts, string([]byte{byte(c)}))
	}
	for _, part := range parts {
		for n := range 150 {
			for _, behind := range []int{0, 7, 150} {
				checkText(t, strings.Repeat("a", n)+part+strings.Repeat("b", behind), n%5)
			}
		}
	}
}

// TestMixedStrings reads texts of escapes, plain text and characters in any order.
func TestMixedStrings(t *testing.T) {
	good := []string{"a", "plain text ", "/", `\n`, `\"`, `\\`, `\/`, `\b\f\r\t`, `\u20ac`, `\uD83d\uDE00`, "é", "€",
		"東京", "😀", strings.Repeat("x", 64)}
	bad := []string{`\u20a`, `\u`, `\u12g4`, `\u123\u1234`, `\`, `\x`, `"`, "\x00", "\x1f", "\xff", "\xc3",
		"\xe2\x82", "\xed\xa0\x80"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		var text strings.Builder
		for range random.IntN(60) {
			if random.IntN(200) == 0 {
				text.WriteString(bad[random.IntN(len(bad))])
			}
			text.WriteString(good[random.IntN(len(good))])
		}
		checkText(t, text.String(), random.IntN(4))
	}
}

// TestCharacters puts all characters, and what resembles them, across the border of two steps.
func TestCharacters(t *testing.T) {
	edges := []byte{'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xe0, 0xe1, 0xed, 0xf0,
		0xf1, 0xf4, 0xf5}
	b := slices.Repeat([]byte{'a'}, 256)
	b[3] = '"'
	check := func(at int, text ...byte) {
		t.Helper()
		copy(b[at:], text)
		want, tail := utf8.Valid(text), len(b)-64
		if got := long(b, 4); got > len(b) || !want && got > at+len(text) || got < 4 {
			t.Fatalf("%q at %d: long goes to %d", text, at, got)
		}
		b[tail] = '"'
		if end, why := Check(b, 3); (why == "") != want || want && end != tail+1 {
			t.Fatalf("%q at %d: Check says %d %q", text, at, end, why)
		}
		b[tail] = 'a'
		copy(b[at:], "aaaa")
	}
	for _, at := range []int{65, 66, 67, 98, 130} {
		for _, c0 := range edges {
			for _, c1 := range edges {
				for _, c2 := range edges {
					for _, c3 := range edges {
						check(at, c0, c1, c2, c3)
					}
				}
			}
		}
	}
	for r := rune(0); r <= utf8.MaxRune; r += 1 + r>>13 {
		if utf8.ValidRune(r) && r >= utf8.RuneSelf {
			check(96, utf8.AppendRune(nil, r)...)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(strings.Repeat(`plain text \"é\" `, 50), 3)
	f.Add("\x7f\x80\x1f", 0)
	f.Add(strings.Repeat(`\\`, 100)+`\`, 1)
	f.Fuzz(func(t *testing.T, text string, before int) {
		if before >= 0 && before < 100 {
			checkText(t, text, before)
		}
	})
}
