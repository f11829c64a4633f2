package disclosure

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestSummary(t *testing.T) {
	tests := []struct{ name, tool, want string }{
		{"one sentence", `{"description":"Finds orders."}`, "Finds orders."},
		{"two short ones", `{"description":"Finds orders. Old ones are in the archive."}`,
			"Finds orders. Old ones are in the archive."},
		{"the second names a parameter",
			`{"description":"Finds orders. Set limit for fewer.","inputSchema":{"properties":{"limit":{}}}}`, "Finds orders."},
		{"the first is long enough",
			`{"description":"Finds orders of all customers in every country that we deliver to. Fast."}`,
			"Finds orders of all customers in every country that we deliver to."},
		{"no stop", `{"description":"Finds orders"}`, "Finds orders"},
		{"abbreviations and numbers",
			`{"description":"Finds orders, e.g. open ones, since version 1.5 of the shop. All of them come at once, which may take a while."}`, "Finds orders, e.g. open ones, since version 1.5 of the shop."},
		{"a small letter goes on", `{"description":"Sends to acme.com. and others. Never twice!"}`,
			"Sends to acme.com. and others. Never twice!"},
		{"sections", `{"description":"Finds orders.\nArgs:\n    limit: how many\nReturns: a list."}`, "Finds orders."},
		{"a heading", `{"description":"# Orders\n\nFinds orders.\n\n## More\nSlow."}`, "Finds orders."},
		{"a list", `{"description":"Finds orders by:\n- number\n- customer"}`, "Finds orders by:"},
		{"only a list", `{"description":"- Finds orders\n- Slow"}`, "Finds orders"},
		{"code", "{\"description\":\"```sql\\nSELECT 1\\n```\\nRuns `SQL` and **nothing** else.\"}",
			"Runs SQL and nothing else."},
		{"code that never ends", "{\"description\":\"```sql\\nSELECT 1\",\"title\":\"Orders\"}", "Orders"},
		{"links", `{"description":"Finds [orders](https://a.example/x) as told (https://a.example/y) there."}`,
			"Finds orders as told there."},
		{"what does not show", `{"description":"Finds\u200b or\u202eders\u0007.\u00a0Now."}`, "Finds orders. Now."},
		{"another language", `{"description":"受注を検索します。遅い。"}`, "受注を検索します。 遅い。"},
		{"a title", `{"title":"Find orders"}`, "Find orders"},
		{"a title of old", `{"description":" ","annotations":{"title":"Find orders"}}`, "Find orders"},
		{"only a name", `{}`, "List open orders"},
		{"no text", `{"description":7,"title":[]}`, "List open orders"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			item := mcp.Item{Name: "crm__x", Raw: mcp.Raw(tt.tool), Target: mcp.Target{Upstream: "crm", Name: "list_openOrders"}}
			if got := (&Disclosure{}).summary(item); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := clip(strings.Repeat("wort ", 100)); utf8.RuneCountInString(got) > longest ||
		!strings.HasSuffix(got, "wort…") {
		t.Errorf("cut to %q", got)
	}
	if got := clip(strings.Repeat("ü", 500)); utf8.RuneCountInString(got) != longest {
		t.Errorf("cut to %q", got)
	}
}

func FuzzBeginning(f *testing.F) {
	for _, seed := range []string{"Finds orders. Fast.", "```a", "# A\n\n- b\n1. c", "[a](b) http://c", "e.g. a. B",
		"\xff\x00.", "....", "。。", "Args:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := beginning(text, []string{"a"})
		if utf8.RuneCountInString(got) > longest || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\x00`") {
			t.Errorf("%q", got)
		}
		if again := beginning(text, []string{"a"}); again != got {
			t.Errorf("%q, then %q", got, again)
		}
	})
}

func FuzzSelected(f *testing.F) {
	for _, seed := range []string{"", "?tools=a,b", "?tools=%2", "?tools=%ff&tools", "#", "{?tools}", "?tools=a%252Cb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		names, ours := selected(URI + query)
		seen := map[string]bool{}
		for _, name := range names {
			if name == "" || strings.Contains(name, ",") || seen[name] || len(name) > maxName {
				t.Errorf("%q of %q", names, query)
			}
			seen[name] = true
		}
		if !ours && names != nil {
			t.Errorf("%q of no URI of ours", names)
		}
	})
}

// TestEscapedComesBack: a name survives the way into one of our URIs and back.
func TestEscapedComesBack(t *testing.T) {
	for _, name := range []string{"crm__a", "a b", "a%2Cb", "a+b", "a/b?c#d&e", "grün"} {
		if got, ours := selected(URI + "?tools=" + escaped(name)); !ours || len(got) != 1 || got[0] != name {
			t.Errorf("%q became %q", name, got)
		}
	}
}
