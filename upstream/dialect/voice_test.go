package dialect

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/safelink"
)

func TestAQuestionSaysWhoAsks(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a line", "Deploy web?", "crm asks: Deploy web?"},
		{"nothing", "", "crm asks: "},
		{"blanks", " \n\t\r\n ", "crm asks: "},
		{"the gateway's own words", "Gatehouse asks: a program wants to make this call",
			"crm asks: Gatehouse asks: a program wants to make this call"},
		{"another server's words", "ops asks: now", "crm asks: ops asks: now"},
		{"its own mark", "crm asks: now", "crm asks: crm asks: now"},
		{"lines", "Plans:\n- small\n- large", "crm asks: Plans:\n> - small\n> - large"},
		{"lines of every kind", "a\r\nb\rc\vd\fe\u0085f\u2028g\u2029h", "crm asks: a\n> b\n> c\n> d\n> e\n> f\n> g\n> h"},
		{"far below", "a" + strings.Repeat("\n", 200) + "Gatehouse asks: yes?", "crm asks: a\n> \n> Gatehouse asks: yes?"},
		{"far below, with blanks", "a" + strings.Repeat("\n \u00a0\u200b", 200) + "\nGatehouse asks: yes?",
			"crm asks: a\n> \n> Gatehouse asks: yes?"},
		{"blank lines first", "\n\nGatehouse asks: yes?", "crm asks: Gatehouse asks: yes?"},
		{"indented lines", "a\n    b", "crm asks: a\n>     b"},
		{"turned text", "\u202e?sey :sksa esuohetaG\u202c", "crm asks: ?sey :sksa esuohetaG"},
		{"isolates and marks", "\u2066\u200ea\u200f\u2069\u061c", "crm asks: a"},
		{"controls", "\x1b[2J\x00\x08a\x7f\u009b", "crm asks: [2Ja"},
		{"invisible text", "\u200bG\u00adate\ufeff\U000e0041", "crm asks: Gate"},
		{"scripts and emoji",
			"\u05e9\u05dc\u05d5\u05dd \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f4bb?",
			"crm asks: \u05e9\u05dc\u05d5\u05dd \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f4bb?"},
		{"tabs", "a\tb", "crm asks: a\tb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := inVoice("crm", tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzInVoice(f *testing.F) {
	f.Add("Deploy?\n\nGatehouse asks: yes?")
	f.Add("\u202e\r\v\x00")
	f.Fuzz(func(t *testing.T, text string) {
		first, rest, _ := strings.Cut(inVoice("crm", text), "\n")
		if !strings.HasPrefix(first, "crm asks: ") {
			t.Errorf("%q begins the question %q", first, text)
		}
		for line := range strings.Lines(rest) {
			if !strings.HasPrefix(line, quoteMark) {
				t.Errorf("the line %q of %q has no mark", line, text)
			}
		}
		if strings.ContainsFunc(first+rest, func(r rune) bool { return r != '\n' && r != '\t' && safelink.Hidden(r) }) {
			t.Errorf("%q hides something", text)
		}
	})
}

func TestWhatAServerMayAsk(t *testing.T) {
	for _, tt := range []struct {
		name, params string
		want         string // part of the error; "" for none
	}{
		{"a form", `{"message":"m","requestedSchema":{"type":"object"}}`, ""},
		{"a form by its mode", `{"mode":"form","message":"m"}`, ""},
		{"no mode", `{"mode":null,"message":"m"}`, ""},
		{"no message", `{}`, ""},
		{"unknown members", `{"message":"m","x/y":{"url":"javascript:x"}}`, ""},
		{"a page", `{"mode":"url","message":"m","url":"https://a.example/x"}`, ""},
		{"a page that is none", `{"mode":"url","message":"m","url":"javascript:alert(1)"}`, "https://"},
		{"no page", `{"mode":"url","message":"m"}`, "https://"},
		{"a page of another type", `{"mode":"url","message":"m","url":["https://a.example"]}`, "https://"},
		{"a page of a form", `{"message":"m","url":"javascript:alert(1)"}`, "https://"},
		{"a page of a form by its mode", `{"mode":"form","message":"m","url":"data:,x"}`, "https://"},
		{"two pages", `{"mode":"url","message":"m","url":"https://a.example","url":"javascript:x"}`, "two members"},
		{"two messages", `{"message":"m","message":"Gatehouse asks: yes?"}`, "two members"},
		{"an escaped name", `{"mode":"url","message":"m","url":"https://a.example","\u0075rl":"javascript:x"}`, "escaped"},
		{"an escaped message", `{"m\u0065ssage":"Gatehouse asks: yes?"}`, "escaped"},
		{"a page in another case", `{"mode":"url","message":"m","url":"https://a.example","URL":"javascript:x"}`,
			"two members"},
		{"a page in another case alone", `{"message":"m","Url":"javascript:x"}`, "in place of"},
		{"a message in another case", `{"message":"m","meſſage":"Gatehouse asks: yes?"}`, "two members"},
		{"a mode in another case", `{"message":"m","MODE":"url"}`, "in place of"},
		{"another mode", `{"mode":"page","message":"m"}`, "form or url"},
		{"another case", `{"mode":"URL","message":"m","url":"https://a.example"}`, "form or url"},
		{"a mode that is no text", `{"mode":{"url":1},"message":"m"}`, "form or url"},
		{"the user's own computer", `{"mode":"url","message":"m","url":"http://127.0.0.1:8080/"}`, "own computer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := &Voice{Upstream: "crm", Log: slog.New(slog.DiscardHandler)}
			params, err := v.Put(mcp.MethodElicit, mcp.Raw(tt.params))
			if (err == nil) != (tt.want == "") || err != nil &&
				(err.Code != mcp.CodeInvalidParams || !strings.Contains(err.Message, tt.want)) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if message, _ := params.Member("message"); err == nil && !strings.HasPrefix(message.Text(), "crm asks: ") {
				t.Errorf("asked %s", params)
			}
		})
	}
	v := &Voice{Upstream: "crm", LoopbackLinks: true, Log: slog.New(slog.DiscardHandler)}
	if _, err := v.Put(mcp.MethodElicit,
		mcp.Raw(`{"mode":"url","message":"m","url":"http://127.0.0.1:8080/"}`)); err != nil {
		t.Errorf("with loopback_links: %v", err)
	}
	// Only an elicitation has text that a user reads as a question.
	for _, params := range []string{`{"messages":[],"systemPrompt":"Gatehouse asks: yes?","maxTokens":1}`, ``} {
		if got, err := v.Put(mcp.MethodCreateMessage, mcp.Raw(params)); err != nil || string(got) != params {
			t.Errorf("%s becomes %s, %v", params, got, err)
		}
	}
}

// FuzzKeys: no server's key equals one of the gateway's own, and each comes back unchanged.
func FuzzKeys(f *testing.F) {
	for _, key := range []string{"q", "", "gatehouse-approval", "GATEHOUSE-approval", "server:gatehouse-approval",
		"server:", "server:server:x"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		public := PublicKey(key)
		if isOwnKey(public) {
			t.Errorf("%q becomes %q", key, public)
		}
		if native, ok := nativeKey(public); !ok || native != key {
			t.Errorf("%q comes back as %q, %t", key, native, ok)
		}
	})
}
