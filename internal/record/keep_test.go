package record

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestKeep(t *testing.T) {
	const arguments = `{"account": "a1", "Password": "s3", "order": {"id": 7, "items": [{"pass\u0077ord": "s3", "n":1}, 2]},` + "\n" + ` "note": null}`
	for _, tt := range []struct {
		name      string
		keep      Keep
		arguments string
		want      string
		omitted   string
	}{
		{"all", Keep{All: true}, `{"a": 1,` + "\n" + ` "b": [ ]}`, `{"a":1,"b":[]}`, ""},
		{"redacted", Keep{All: true, Redact: []string{"password"}}, arguments,
			`{"account":"a1","Password":"<redacted>","order":{"id":7,"items":[{"pass\u0077ord":"<redacted>","n":1},2]},"note":null}`, ""},
		{"a branch redacted", Keep{All: true, Redact: []string{"order", "note"}}, arguments,
			`{"account":"a1","Password":"s3","order":"<redacted>","note":"<redacted>"}`, ""},
		{"names", Keep{Names: []string{"account", "order.id", "missing", "account.x"}}, arguments,
			`{"account":"a1","order.id":7}`, ""},
		{"names, redacted", Keep{Names: []string{"order.items", "Password", "order.id"}, Redact: []string{"password", "ID"}},
			arguments, `{"order.items":[{"pass\u0077ord":"<redacted>","n":1},2],"Password":"<redacted>","order.id":"<redacted>"}`, ""},
		{"no object", Keep{All: true}, `[1]`, ``, ""},
		{"none", Keep{All: true}, ``, ``, ""},
		{"no JSON", Keep{All: true}, `{"a":}`, ``, "they are not JSON"},
		{"too many", Keep{All: true}, `{"a":"` + strings.Repeat("x", maxArguments) + `"}`, ``,
			"they have more than 16384 bytes"},
		{"far too many", Keep{All: true}, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, ``,
			"they have more than 16384 bytes"},
		{"one of many", Keep{Names: []string{"b"}}, `{"a":"` + strings.Repeat("x", 1<<20) + `","b":1}`, `{"b":1}`, ""},
	} {
		got, omitted := tt.keep.Of(mcp.Raw(tt.arguments))
		if string(got) != tt.want || omitted != tt.omitted {
			t.Errorf("%s: %s, %q\nwant %s, %q", tt.name, got, omitted, tt.want, tt.omitted)
		}
	}
}

func FuzzKeep(f *testing.F) {
	f.Add(`{"a":{"secret":1},"b":["secret"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		keep := Keep{All: true, Redact: []string{"secret"}}
		got, _ := keep.Of(mcp.Raw(text))
		if strings.ContainsAny(string(got), "\n\r") {
			t.Errorf("%q has more than one line", got)
		}
	})
}
