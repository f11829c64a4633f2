package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// This is the scenario of the matrix about the items of lists.

// odd is JSON that must never be decoded and encoded again.
const odd = `{"n":1.0,"big":12345678901234567890,"e":1E400,"text":"\u00e9\/é","N":null,"z":[],"a":{}}`

// oddItem is odd in the items of lists, which are withheld with numbers that some clients cannot read.
const oddItem = `{"n":1.0,"big":12345678901234567890,"e":1E300,"text":"\u00e9\/é","N":null,"z":[],"a":{}}`

// hints is a _meta with members that hosts act on.
const hints = `"_meta":{"example.com/x":1.0,"anthropic/alwaysLoad":true,"anthropic/maxResultSizeChars":5e5,"ui":{"visibility":["app"]}}`

// parts are the members of an item and the revision that introduced each, "" for all
// revisions.
type parts []struct{ since, text string }

// in returns the item as a revision has it. %s in a part stands for its name.
func (ps parts) in(revision, name string) string {
	var all []string
	for _, p := range ps {
		if revision >= p.since {
			all = append(all, strings.Replace(p.text, "%s", name, 1))
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

var (
	toolParts = parts{
		{"", `"name":"%s"`},
		{"2025-06-18", `"title":"\u0054"`},
		{"", `"description":"d"`},
		{"2025-11-25", `"icons":[{"src":"data:,"}]`},
		{"", `"inputSchema":{"type":"object","properties":{"key":{"const":1.0}}}`},
		{"2025-06-18", `"outputSchema":{"type":"object","properties":{"n":{"const":1.0}}}`},
		{"2025-03-26", `"annotations":{"title":"A","readOnlyHint":true}`},
		{"2025-06-18", hints},
		{"", `"vendor":` + oddItem},
	}
	promptParts = parts{
		{"", `"name":"%s"`},
		{"2025-06-18", `"title":"\u0054"`},
		{"2025-11-25", `"icons":[{"src":"data:,"}]`},
		{"", `"arguments":[{"name":"key"}]`},
		{"2025-06-18", hints},
		{"", `"vendor":` + oddItem},
	}
	resourceParts = parts{
		{"", `"uri":"%s"`},
		{"", `"name":"do"`},
		{"2025-06-18", `"title":"\u0054"`},
		{"2025-11-25", `"icons":[{"src":"data:,"}]`},
		{"", `"annotations":{"audience":["user"],"priority":0.50}`},
		{"", `"size":1000`},
		{"2025-06-18", hints},
		{"", `"vendor":` + oddItem},
	}
	templateParts = parts{
		{"", `"name":"do","uriTemplate":"%s"`},
		{"2025-06-18", `"title":"\u0054"`},
		{"2025-11-25", `"icons":[{"src":"data:,"}]`},
		{"", `"annotations":{"audience":["user"],"priority":0.50}`},
		{"2025-06-18", hints},
		{"", `"vendor":` + oddItem},
	}
)

// list returns a whole list. member is the name of the items' member.
func (c *speaker) list(t *testing.T, method, member, key string) map[string]json.RawMessage {
	t.Helper()
	items := map[string]json.RawMessage{}
	for params := "{}"; params != ""; {
		m := c.request(t, method, params)
		var page []json.RawMessage
		if !m.Value(member, &page) {
			t.Fatalf("no %s in %s", member, m.Text)
		}
		for _, item := range page {
			var members map[string]json.RawMessage
			var name string
			if json.Unmarshal(item, &members) != nil || json.Unmarshal(members[key], &name) != nil {
				t.Fatalf("no %s in %s", key, item)
			}
			items[name] = item
		}
		var cursor json.RawMessage
		if params = ""; m.Value("nextCursor", &cursor) {
			params = fmt.Sprintf(`{"cursor":%s}`, cursor)
		}
	}
	return items
}

// listed compares the items of lists: a client gets every member that its revision has,
// exactly as the server wrote it.
func listed(t *testing.T, p *pair) {
	for _, l := range []struct {
		method, member, key string
		parts               parts
		name                string
	}{
		{"tools/list", "tools", "name", toolParts, p.actor.name + "__do"},
		{"prompts/list", "prompts", "name", promptParts, p.actor.name + "__do"},
		{"resources/list", "resources", "uri", resourceParts, p.actor.name + "+test://listed"},
		{"resources/templates/list", "resourceTemplates", "uriTemplate", templateParts, p.actor.uri("{key}")},
	} {
		got, want := p.wire.list(t, l.method, l.member, l.key)[l.name], l.parts.in(p.client.Name, l.name)
		if string(got) != want {
			t.Errorf("%s: got\n%s\nwant\n%s", l.method, got, want)
		}
	}
}
