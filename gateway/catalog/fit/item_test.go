package fit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// shapes are members of items that some official client refuses, and what becomes of them: other
// members, or a part of the reason why the item is withheld.
var shapes = map[string][]struct{ members, want, reason string }{
	mcp.MethodToolsList: {
		{``, `"inputSchema":{"type":"object"}`, ``},
		{`"inputSchema":null`, `"inputSchema":{"type":"object"}`, ``},
		{`"inputSchema":{}`, `"inputSchema":{"type":"object"}`, ``},
		{`"inputSchema":{"type":null}`, `"inputSchema":{"type":"object"}`, ``},
		{`"inputSchema":{"anyOf":[{"type":"object"}]}`, `"inputSchema":{"anyOf":[{"type":"object"}],"type":"object"}`, ``},
		{`"inputSchema":{"type":"object","required":null}`, `"inputSchema":{"type":"object"}`, ``},
		{`"inputSchema":{"type":"object","properties":null}`, `"inputSchema":{"type":"object"}`, ``},
		{`"inputSchema":{"type":"object","properties":{"a":true,"b":false,"c":null,"d":{"default":null}}}`,
			`"inputSchema":{"type":"object","properties":{"a":{},"b":{"not":{}},"c":{},"d":{"default":null}}}`, ``},
		{`"inputSchema":{"type":"object","$schema":null,"required":["a",null]}`,
			`"inputSchema":{"type":"object","required":["a"]}`, ``},
		{`"inputSchema":{"type":"object"},"outputSchema":null`, `"inputSchema":{"type":"object"}`, ``},
		{`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":null}`,
			`"inputSchema":{"type":"object"},"outputSchema":{"type":"object"}`, ``},
		{`"description":null,"title":null,"annotations":null,"_meta":null,"icons":null,"execution":null,"inputSchema":{"type":"object"}`, `"inputSchema":{"type":"object"}`, ``},
		{`"annotations":{"readOnlyHint":null,"title":null},"inputSchema":{"type":"object"}`,
			`"annotations":{},"inputSchema":{"type":"object"}`, ``},
		{`"execution":{"taskSupport":null},"inputSchema":{"type":"object"}`,
			`"execution":{},"inputSchema":{"type":"object"}`, ``},
		{`"icons":[null,{"src":"https://a","theme":null}],"inputSchema":{"type":"object"}`,
			`"icons":[{"src":"https://a"}],"inputSchema":{"type":"object"}`, ``},
		{`"description":"cut \ud83d","inputSchema":{"type":"object"}`,
			`"description":"cut \ufffd","inputSchema":{"type":"object"}`, ``},
		{`"inputSchema":[]`, ``, `inputSchema is no object`},
		{`"inputSchema":true`, ``, `inputSchema is no object`},
		{`"inputSchema":{"type":"string"}`, ``, `type is none of object`},
		{`"inputSchema":{"type":["object","null"]}`, ``, `type is none of object`},
		{`"inputSchema":{"type":"object","type":null}`, ``, `two ways`},
		{`"inputSchema":{"type":"object","required":true}`, ``, `required is no list`},
		{`"inputSchema":{"type":"object","required":[1]}`, ``, `required has an element that is no text`},
		{`"inputSchema":{"type":"object","properties":[]}`, ``, `properties is no object`},
		{`"inputSchema":{"type":"object","properties":{"a":"string"}}`, ``, `no schema for "a"`},
		{`"inputSchema":{"type":"object","$schema":7}`, ``, `$schema is no text`},
		{`"inputSchema":{"type":"object","maximum":1e400}`, ``, `number`},
		{`"inputSchema":{"type":"object","maximum":` + strings.Repeat("9", 400) + `}`, ``, `number`},
		{`"inputSchema":{"type":"object","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, ``, `nested`},
		{`"outputSchema":"string"`, ``, `outputSchema is no object`},
		{`"outputSchema":{"type":"object","properties":{"a":7}}`, ``, `no schema for "a"`},
		{`"description":7`, ``, `description is no text`},
		{`"title":{}`, ``, `title is no text`},
		{`"annotations":[]`, ``, `annotations is no object`},
		{`"annotations":{"readOnlyHint":"true"}`, ``, `readOnlyHint is neither true nor false`},
		{`"annotations":{"title":1}`, ``, `title is no text`},
		{`"execution":{"taskSupport":"maybe"}`, ``, `taskSupport is none of`},
		{`"_meta":[]`, ``, `_meta is no object`},
		{`"icons":{}`, ``, `icons is no list`},
		{`"icons":["https://a"]`, ``, `icons has an element that is no object`},
		{`"icons":[{"mimeType":"image/png"}]`, ``, `src is missing`},
		{`"icons":[{"src":"https://a","sizes":"48x48"}]`, ``, `sizes is no list`},
		{`"icons":[{"src":"https://a","theme":"blue"}]`, ``, `theme is none of light, dark`},
	},
	mcp.MethodPromptsList: {
		{`"arguments":null,"description":null`, ``, ``},
		{`"arguments":[null,{"name":"a","description":null,"required":null}]`, `"arguments":[{"name":"a"}]`, ``},
		{`"arguments":{}`, ``, `arguments is no list`},
		{`"arguments":[{"description":"d"}]`, ``, `name is missing`},
		{`"arguments":[{"name":"a","required":"yes"}]`, ``, `required is neither true nor false`},
	},
	mcp.MethodResourcesList: {
		{``, `"name":"a.txt"`, ``},
		{`"name":null,"title":"A"`, `"name":"A","title":"A"`, ``},
		{`"name":"a","mimeType":null,"size":null,"annotations":null`, `"name":"a"`, ``},
		{`"name":"a","annotations":{"audience":null,"priority":null,"lastModified":null}`, `"name":"a","annotations":{}`, ``},
		{`"name":"a","annotations":{"lastModified":"2026-01-12T15:00:58"}`, `"name":"a","annotations":{}`, ``},
		{`"name":"a","annotations":{"lastModified":"2026-01-12T15:00:58,5Z"}`, `"name":"a","annotations":{}`, ``},
		{`"name":7`, ``, `name is no text`},
		{`"name":"a","mimeType":[]`, ``, `mimeType is no text`},
		{`"name":"a","size":1.5`, ``, `size is no integer`},
		{`"name":"a","size":9007199254740993`, ``, `size is no integer`},
		{`"name":"a","size":"12"`, ``, `size is no integer`},
		{`"name":"a","annotations":{"audience":["everyone"]}`, ``, `audience has an element that is none of user, assistant`},
		{`"name":"a","annotations":{"audience":"user"}`, ``, `audience is no list`},
		{`"name":"a","annotations":{"priority":2}`, ``, `priority is no number from 0 to 1`},
		{`"name":"a","annotations":{"priority":"1"}`, ``, `priority is no number from 0 to 1`},
		{`"name":"a","annotations":{"lastModified":7}`, ``, `lastModified is no text`},
	},
	mcp.MethodResourceTemplatesList: {
		{``, `"name":"a.txt"`, ``},
		{`"name":"a","description":null`, `"name":"a"`, ``},
		{`"name":"a","mimeType":7`, ``, `mimeType is no text`},
	},
}

// item returns an item of a list with more members.
func item(method, members string) mcp.Raw {
	key := map[string]string{"name": "t", "uri": "file:///a.txt", "uriTemplate": "file:///{+x}/a.txt"}[mcp.ItemKey(method)]
	if members != "" {
		members = "," + members
	}
	return mcp.Raw(fmt.Sprintf("{%q:%q%s}", mcp.ItemKey(method), key, members))
}

func TestItemsThatClientsRefuse(t *testing.T) {
	for method, all := range shapes {
		for _, tt := range all {
			in := item(method, tt.members)
			got, err := Item(method, in)
			switch {
			case tt.reason != "":
				if err == nil || !strings.Contains(err.Error(), tt.reason) {
					t.Errorf("%s: %.200s: got %s, %v, want a reason with %q", method, in, got, err, tt.reason)
				}
			case err != nil || string(got) != string(item(method, tt.want)):
				t.Errorf("%s: %s: got %s, %v, want %s", method, in, got, err, item(method, tt.want))
			}
		}
	}
}

// TestItemsThatFit: what clients accept keeps its bytes.
func TestItemsThatFit(t *testing.T) {
	for method, members := range map[string]string{
		mcp.MethodToolsList: ` "title" : "T", "inputSchema":{ "type":"object","properties":{"a":{"default":null,"enum":[null]}}, "required":["a"], "x":null},` +
			`"outputSchema":{"anyOf":[{"type":"string"}]},"annotations":{"readOnlyHint":true,"x":null},"execution":{"taskSupport":"optional"},` +
			`"icons":[{"src":"https://a","sizes":["48x48"],"theme":"dark"}],"_meta":{"a":null,"n":-1.5e10},"other":null,"emoji":"\ud83d\ude00"`,
		mcp.MethodPromptsList:           `"arguments":[{"name":"a", "required":false}],"icons":[]`,
		mcp.MethodResourcesList:         `"name":"","size":12,"annotations":{"audience":["user"],"priority":0.5,"lastModified":"2026-01-12T15:00:58.5+01:00"}`,
		mcp.MethodResourceTemplatesList: `"name":"a","mimeType":"text/plain"`,
	} {
		in := item(method, members)
		if got, err := Item(method, in); err != nil || !same(got, in) {
			t.Errorf("%s: %s became %s, %v", method, in, got, err)
		}
	}
}

func TestURIsOfResources(t *testing.T) {
	for uri, want := range map[string]bool{
		"file:///a b": true, "crm+note:a": true, "note://": true, "note://u@h:80/x": true, "note://h:": true,
		"note://%zz": true, "note://[::1]:80/": true,
		"note://{id}/<x>": true, "note:///<x>": true, "C:\\x": true, "ui://crm/x": true, "note://ü/é": true,
		"": false, "a": false, "/a": false, "a/b:c": false, "1a:b": false, "a_b+file:///x": false,
		" note:x": false, ":x": false,
		"note://<id>": false, "note://a b/": false, "note://a:b/": false, "note://a:99999": false, "note://[x": false,
		"note://[1.2.3.4]": false,
		"note://a|b":       false, "note://:80": false, "note://u@/": false, "note://a\\b": false, "note://a:1:2": false,
	} {
		if got := URI(uri); got != want {
			t.Errorf("%q: got %t", uri, got)
		}
	}
}

func BenchmarkItem(b *testing.B) {
	in := item(mcp.MethodToolsList, `"description":"`+strings.Repeat("What it does. ", 40)+
		`","inputSchema":{"type":"object","properties":{`+
		strings.TrimSuffix(strings.Repeat(`"p":{"type":"string","description":"a parameter"},`, 8), ",")+
		`},"required":["p"]},"annotations":{"readOnlyHint":true}`)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Item(mcp.MethodToolsList, in); err != nil {
			b.Fatal(err)
		}
	}
}
