package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestRevisions(t *testing.T) {
	var names []string
	for _, r := range Revisions() {
		names = append(names, r.Name)
		if Lookup(r.Name) != r {
			t.Errorf("Lookup does not find %s", r.Name)
		}
	}
	if want := []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}; !slices.Equal(names, want) {
		t.Errorf("got %v", names)
	}
	for _, name := range []string{"", "2026-07-28 ", "2025-11-2", "latest", strings.Repeat("2", 10000)} {
		if Lookup(name) != nil {
			t.Errorf("%.20q is found", name)
		}
	}
	if Stateless().Stateful || !NewestStateful().Stateful || AssumedStateful().Name != "2025-03-26" {
		t.Error("the revisions by what they are are wrong")
	}
}

func TestNegotiate(t *testing.T) {
	for _, r := range Revisions() {
		if r.Stateful && Negotiate(r.Name) != r {
			t.Errorf("%s is answered with %s", r.Name, Negotiate(r.Name).Name)
		}
	}
	for _, name := range []string{"2026-07-28", "2027-01-01", "", "1.0"} {
		if got := Negotiate(name).Name; got != "2025-11-25" {
			t.Errorf("%q is answered with %s", name, got)
		}
	}
}

func TestRevisionFlags(t *testing.T) {
	type flags struct{ stateful, batches, header, priming bool }
	want := map[string]flags{
		"2024-11-05": {stateful: true, batches: true},
		"2025-03-26": {stateful: true, batches: true},
		"2025-06-18": {stateful: true, header: true},
		"2025-11-25": {stateful: true, header: true, priming: true},
		"2026-07-28": {header: true},
	}
	for _, r := range Revisions() {
		if got := (flags{r.Stateful, r.Batches, r.VersionHeader, r.Priming}); got != want[r.Name] {
			t.Errorf("%s: %+v", r.Name, got)
		}
	}
}

// byRevision is the form of one value in each revision. A revision that is missing has the
// form of the next newer one; the newest has the value itself.
type byRevision map[string]string

// check calls convert for each revision and compares. An unchanged value must be the same
// bytes, not a copy.
func (want byRevision) check(t *testing.T, in string, convert func(*Revision, mcp.Raw) mcp.Raw) {
	t.Helper()
	expected := in
	for _, r := range slices.Backward(Revisions()) {
		if text, ok := want[r.Name]; ok {
			expected = text
		}
		raw := mcp.Raw(in)
		got := convert(r, raw)
		if string(got) != expected {
			t.Errorf("%s:\ngot  %s\nwant %s", r.Name, got, expected)
		}
		if string(got) == in && !same(got, raw) {
			t.Errorf("%s: it was copied without need", r.Name)
		}
		if string(raw) != in {
			t.Errorf("%s: the input was changed to %s", r.Name, raw)
		}
		if !json.Valid(got) {
			t.Errorf("%s: not JSON: %s", r.Name, got)
		}
	}
}

func TestItem(t *testing.T) {
	tests := []struct {
		name, method, in string
		want             byRevision
	}{
		{"nothing to go", mcp.MethodToolsList, `{"name":"a", "description":"d","inputSchema":{"type":"object"}}`, nil},
		{"schemas keep their text", mcp.MethodToolsList,
			`{"name":"a","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"t":{"title":"x","icons":[]}},"oneOf":[{"$ref":"https://example.com/x"}],"additionalProperties":false,"properties":{"title":{"type":"string"}, "_meta":{}}}}`, nil},
		{"execution", mcp.MethodToolsList, `{"name":"a","execution":{"taskSupport":"optional"},"inputSchema":{}}`,
			byRevision{
				"2026-07-28": `{"name":"a","inputSchema":{}}`,
				"2025-11-25": `{"name":"a","execution":{"taskSupport":"optional"},"inputSchema":{}}`,
				"2025-06-18": `{"name":"a","inputSchema":{}}`,
			}},
		{"icons", mcp.MethodToolsList, `{"name":"a","icons":[{"src":"x"}],"inputSchema":{"icons":1}}`,
			byRevision{"2025-06-18": `{"name":"a","inputSchema":{"icons":1}}`}},
		{"title and annotations of a tool", mcp.MethodToolsList,
			`{"name":"a","title":"A","annotations":{"readOnlyHint":true},"_meta":{"k":1}}`,
			byRevision{"2025-03-26": `{"name":"a","annotations":{"readOnlyHint":true,"title":"A"}}`,
				"2024-11-05": `{"name":"a"}`}},
		{"a title without annotations", mcp.MethodToolsList, `{"name":"a","title":"A"}`,
			byRevision{"2025-03-26": `{"name":"a","annotations":{"title":"A"}}`, "2024-11-05": `{"name":"a"}`}},
		{"the annotations' own title stays", mcp.MethodToolsList, `{"name":"a","title":"A","annotations":{"title":"B"}}`,
			byRevision{"2025-03-26": `{"name":"a","annotations":{"title":"B"}}`, "2024-11-05": `{"name":"a"}`}},
		{"outputSchema of an object", mcp.MethodToolsList, `{"name":"a","outputSchema":{"type":"object"}}`,
			byRevision{"2025-03-26": `{"name":"a"}`}},
		{"outputSchema of an array", mcp.MethodToolsList, `{"name":"a","outputSchema":{"type":"array"}}`,
			byRevision{"2025-11-25": `{"name":"a"}`}},
		{"outputSchema that is none", mcp.MethodToolsList, `{"name":"a","outputSchema":null}`,
			byRevision{"2025-11-25": `{"name":"a"}`}},
		{"a prompt", mcp.MethodPromptsList,
			`{"name":"p","title":"P","icons":[],"arguments":[{"name":"x","title":"X","required":true},{"name":"y"}],"execution":1}`,
			byRevision{
				"2025-06-18": `{"name":"p","title":"P","arguments":[{"name":"x","title":"X","required":true},{"name":"y"}],"execution":1}`,
				"2025-03-26": `{"name":"p","arguments":[{"name":"x","required":true},{"name":"y"}],"execution":1}`,
			}},
		{"a resource", mcp.MethodResourcesList,
			`{"uri":"file:///a","name":"a","title":"A","size":1,"_meta":{},"annotations":{"priority":1.0,"lastModified":"2025-01-01T00:00:00Z"}}`,
			byRevision{"2025-03-26": `{"uri":"file:///a","name":"a","size":1,"annotations":{"priority":1.0}}`}},
		{"a template", mcp.MethodResourceTemplatesList, `{"uriTemplate":"file:///{a}","name":"a","title":"A","icons":[]}`,
			byRevision{"2025-06-18": `{"uriTemplate":"file:///{a}","name":"a","title":"A"}`,
				"2025-03-26": `{"uriTemplate":"file:///{a}","name":"a"}`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.want.check(t, test.in, func(r *Revision, in mcp.Raw) mcp.Raw { return r.Item(test.method, in) })
		})
	}
}

func TestResult(t *testing.T) {
	tests := []struct {
		name, method, in string
		want             byRevision
	}{
		{"resultType goes", mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`,
			byRevision{"2025-11-25": `{"content":[]}`}},
		{"nothing to go", mcp.MethodToolsCall, `{"content":[ {"type":"text","text":"a"} ], "isError":false}`,
			nil},
		{"a result is no question", mcp.MethodToolsCall,
			`{"resultType":"input_required","content":[],"resultType":"complete"}`,
			byRevision{"2025-11-25": `{"content":[]}`}},
		{"cache hints go", mcp.MethodResourcesRead, `{"contents":[],"resultType":"complete","ttlMs":5,"cacheScope":"public"}`,
			byRevision{"2025-11-25": `{"contents":[]}`}},
		{"serverInfo goes", mcp.MethodToolsCall,
			`{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"k":1}}`,
			byRevision{"2025-11-25": `{"content":[],"_meta":{"k":1}}`}},
		{"a tool's failure stays", mcp.MethodToolsCall,
			`{"resultType":"complete","content":[{"type":"text","text":"no"}],"isError":true}`,
			byRevision{"2025-11-25": `{"content":[{"type":"text","text":"no"}],"isError":true}`}},
		{"structured object", mcp.MethodToolsCall,
			`{"resultType":"complete","content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}`,
			byRevision{"2025-11-25": `{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}`,
				"2025-03-26": `{"content":[{"type":"text","text":"{\"a\": 1}"}]}`}},
		{"structured array without a copy", mcp.MethodToolsCall,
			`{"resultType":"complete","content":[{"type":"text","text":"two"}],"structuredContent":[1,"é"]}`,
			byRevision{"2025-11-25": `{"content":[{"type":"text","text":"two"},{"type":"text","text":"[1,\"é\"]"}]}`}},
		{"structured array with a copy", mcp.MethodToolsCall,
			`{"resultType":"complete","content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}`,
			byRevision{"2025-11-25": `{"content":[{"type":"text","text":"[1]"}]}`}},
		{"a part of a result, with the link to the whole, needs no copy", mcp.MethodToolsCall,
			`{"content":[{"type":"resource_link","uri":"gatehouse-result:A","name":"w"}],"structuredContent":[1]}`,
			byRevision{"2025-11-25": `{"content":[{"type":"resource_link","uri":"gatehouse-result:A","name":"w"}]}`,
				"2025-03-26": `{"content":[{"type":"text","text":"Resource: w (gatehouse-result:A)"}]}`}},
		{"structured string, no content", mcp.MethodToolsCall, `{"resultType":"complete","structuredContent":"x"}`,
			byRevision{"2025-11-25": `{"content":[{"type":"text","text":"\"x\""}]}`}},
		{"a resource link", mcp.MethodToolsCall,
			`{"resultType":"complete","content":[{"type":"text","text":"see"},{"type":"resource_link","uri":"crm+file:///a","name":"a","description":"the file","icons":[{"src":"x"}],"annotations":{"priority":1}}]}`,
			byRevision{
				"2025-11-25": `{"content":[{"type":"text","text":"see"},{"type":"resource_link","uri":"crm+file:///a","name":"a","description":"the file","icons":[{"src":"x"}],"annotations":{"priority":1}}]}`,
				"2025-06-18": `{"content":[{"type":"text","text":"see"},{"type":"resource_link","uri":"crm+file:///a","name":"a","description":"the file","annotations":{"priority":1}}]}`,
				"2025-03-26": `{"content":[{"type":"text","text":"see"},{"type":"text","text":"Resource: a (crm+file:///a): the file","annotations":{"priority":1}}]}`,
			}},
		{"a resource link in a prompt", mcp.MethodPromptsGet,
			`{"resultType":"complete","messages":[{"role":"user","content":{"type":"resource_link","uri":"x:y","name":"a"}}]}`,
			byRevision{
				"2025-11-25": `{"messages":[{"role":"user","content":{"type":"resource_link","uri":"x:y","name":"a"}}]}`,
				"2025-03-26": `{"messages":[{"role":"user","content":{"type":"text","text":"Resource: a (x:y)"}}]}`,
			}},
		{"audio", mcp.MethodToolsCall,
			`{"resultType":"complete","content":[{"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}`,
			byRevision{
				"2025-11-25": `{"content":[{"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}`,
				"2024-11-05": `{"content":[{"type":"text","text":"Audio (audio/wav) was left out: this protocol revision has no audio."},{"type":"image","data":"AAAA","mimeType":"image/png"}]}`,
			}},
		{"_meta and lastModified of blocks", mcp.MethodToolsCall,
			`{"resultType":"complete","_meta":{"k":1},"content":[{"type":"resource","resource":{"uri":"a:b","text":"_meta","_meta":{"x":1}},"_meta":{"y":1},"annotations":{"priority":1,"lastModified":"x"}}]}`,
			byRevision{
				"2025-11-25": `{"_meta":{"k":1},"content":[{"type":"resource","resource":{"uri":"a:b","text":"_meta","_meta":{"x":1}},"_meta":{"y":1},"annotations":{"priority":1,"lastModified":"x"}}]}`,
				"2025-03-26": `{"_meta":{"k":1},"content":[{"type":"resource","resource":{"uri":"a:b","text":"_meta"},"annotations":{"priority":1}}]}`,
			}},
		{"_meta of contents", mcp.MethodResourcesRead,
			`{"contents":[{"uri":"a:b","text":"x","_meta":{"k":1}}],"resultType":"complete","ttlMs":1,"cacheScope":"private"}`,
			byRevision{"2025-11-25": `{"contents":[{"uri":"a:b","text":"x","_meta":{"k":1}}]}`,
				"2025-03-26": `{"contents":[{"uri":"a:b","text":"x"}]}`}},
		{"words that look like members", mcp.MethodToolsCall,
			`{"resultType":"complete","content":[{"type":"text","text":"\"resource_link\" \"_meta\" \"audio\" \"icons\""}]}`,
			byRevision{"2025-11-25": `{"content":[{"type":"text","text":"\"resource_link\" \"_meta\" \"audio\" \"icons\""}]}`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.want.check(t, test.in, func(r *Revision, in mcp.Raw) mcp.Raw { return resultOf(r, test.method, in) })
		})
	}
}

// resultOf returns a result for a client of this revision, as it is written.
func resultOf(r *Revision, method string, result mcp.Raw) mcp.Raw {
	edited := r.Result(method, mcp.Edited{Of: result})
	if len(edited.Edits) == 0 {
		return edited.Of
	}
	return append(mcp.Raw{'{'}, bytes.Join(edited.Parts(nil), nil)...)
}

func TestResultCopiesNothingUsually(t *testing.T) {
	in := mcp.Raw(`{"content":[{"type":"text","text":"` + strings.Repeat("abcdefg ", 1000) + `"}],"isError":false}`)
	for _, r := range Revisions() {
		if n := testing.AllocsPerRun(10, func() { _ = r.Result(mcp.MethodToolsCall, mcp.Edited{Of: in}) }); n > 0 {
			t.Errorf("%s: %v allocations", r.Name, n)
		}
	}
}

func TestEvent(t *testing.T) {
	progress := `{"progressToken":"p","progress":0.50,"message":"half"}`
	byRevision{"2024-11-05": `{"progressToken":"p","progress":0.50}`}.check(t, progress,
		func(r *Revision, in mcp.Raw) mcp.Raw { return r.Event(mcp.NoteProgress, in) })
	byRevision{}.check(t, `{"level":"info","message":"x"}`,
		func(r *Revision, in mcp.Raw) mcp.Raw { return r.Event(mcp.NoteMessage, in) })
}

func TestParams(t *testing.T) {
	complete := `{"ref":{"type":"ref/prompt","name":"p","title":"P"},"argument":{"name":"a","value":"b"},"context":{"arguments":{"x":"y"}}}`
	byRevision{"2025-03-26": `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}`}.check(t,
		complete,
		func(r *Revision, in mcp.Raw) mcp.Raw { return r.Params(mcp.MethodComplete, in) })
	byRevision{}.check(t, `{"name":"a","context":1}`,
		func(r *Revision, in mcp.Raw) mcp.Raw { return r.Params(mcp.MethodToolsCall, in) })
}

func TestIdentity(t *testing.T) {
	byRevision{"2025-06-18": `{"name":"g","version":"1","title":"G"}`, "2025-03-26": `{"name":"g","version":"1"}`}.check(t,
		`{"name":"g","version":"1","title":"G","description":"d","icons":[],"websiteUrl":"https://x"}`,
		func(r *Revision, in mcp.Raw) mcp.Raw { return r.Identity(in) })
}

func TestServerCaps(t *testing.T) {
	byRevision{
		"2026-07-28": `{"experimental":{"x":1},"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true},"tools":{},"skills":{},"extensions":{"io.modelcontextprotocol/tasks":{},"com.x/y":{}}}`,
		"2025-11-25": `{"experimental":{"x":1},"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true},"tools":{},"skills":{},"tasks":{"list":{}},"extensions":{"com.x/y":{}}}`,
		"2025-06-18": `{"experimental":{"x":1},"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true},"tools":{},"skills":{}}`,
		"2024-11-05": `{"experimental":{"x":1},"logging":{},"prompts":{"listChanged":true},"resources":{"subscribe":true},"tools":{},"skills":{}}`,
	}.check(t, `{"experimental":{"x":1},"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true},"tools":{},"skills":{},"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"com.x/y":{}},"future":{}}`,
		func(r *Revision, in mcp.Raw) mcp.Raw { return r.ServerCaps(in) })
	byRevision{}.check(t, `{"tools":{"listChanged":true}, "prompts":{}}`,
		func(r *Revision, in mcp.Raw) mcp.Raw { return r.ServerCaps(in) })
}

func TestClientCaps(t *testing.T) {
	clientCaps := func(r *Revision, in mcp.Raw) mcp.Raw { return r.ClientCaps(in) }
	byRevision{
		"2026-07-28": `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
		"2025-11-25": `{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{},"extensions":{}}`,
		"2025-06-18": `{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}`,
		"2025-03-26": `{"roots":{"listChanged":true},"sampling":{}}`,
	}.check(t, `{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{},"extensions":{"io.modelcontextprotocol/tasks":{}},"future":1}`, clientCaps)
	t.Run("url alone is no elicitation where there are only forms", func(t *testing.T) {
		byRevision{"2025-06-18": `{"sampling":{}}`}.check(t, `{"elicitation":{"url":{}},"sampling":{}}`, clientCaps)
	})
	t.Run("an empty one means forms", func(t *testing.T) {
		byRevision{"2025-03-26": `{}`}.check(t, `{"elicitation":{}}`, clientCaps)
	})
	if got := Stateless().ClientCaps(nil); got != nil {
		t.Errorf("nothing became %s", got)
	}
}

func TestError(t *testing.T) {
	const read = mcp.MethodResourcesRead
	tests := []struct {
		name, method string
		code         int
		data         string
		want         map[string]int // as byRevision
	}{
		{"a missing resource", read, mcp.CodeInvalidParams, `{"uri":"a:b"}`,
			map[string]int{"2025-11-25": mcp.CodeResourceNotFound}},
		{"the old code", read, mcp.CodeResourceNotFound, `{"uri":"a:b"}`,
			map[string]int{"2026-07-28": mcp.CodeInvalidParams, "2025-11-25": mcp.CodeResourceNotFound}},
		{"other bad params of a read", read, mcp.CodeInvalidParams, ``, nil},
		{"an unknown tool", mcp.MethodToolsCall, mcp.CodeInvalidParams, `{"uri":"a:b"}`, nil},
		{"URL elicitation", mcp.MethodToolsCall, mcp.CodeURLElicitation, `{"elicitations":[]}`,
			map[string]int{"2026-07-28": mcp.CodeInternal, "2025-11-25": mcp.CodeURLElicitation,
				"2025-06-18": mcp.CodeInternal}},
		{"an undefined code", mcp.MethodToolsCall, -32050, ``,
			map[string]int{"2026-07-28": mcp.CodeInternal, "2025-11-25": -32050}},
		{"an SDK's code", mcp.MethodToolsCall, -32001, ``,
			map[string]int{"2026-07-28": mcp.CodeInternal, "2025-11-25": -32001}},
		{"header mismatch", mcp.MethodToolsCall, mcp.CodeHeaderMismatch, ``, map[string]int{"2025-11-25": mcp.CodeInternal}},
		{"missing capability", mcp.MethodToolsCall, mcp.CodeMissingCapability, ``,
			map[string]int{"2025-11-25": mcp.CodeInternal}},
		{"unsupported version", mcp.MethodToolsCall, mcp.CodeUnsupportedVersion, ``,
			map[string]int{"2025-11-25": mcp.CodeInternal}},
		{"the edges of the range pass", mcp.MethodToolsCall, -32100, ``, nil},
		{"an application's code", mcp.MethodToolsCall, 50201, `{"upstream":"crm"}`, nil},
		{"internal", mcp.MethodToolsCall, mcp.CodeInternal, ``, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expected := test.code
			for _, r := range slices.Backward(Revisions()) {
				if code, ok := test.want[r.Name]; ok {
					expected = code
				}
				in := &mcp.Error{Code: test.code, Message: "m", Data: mcp.Raw(test.data)}
				got := r.Error(test.method, in)
				if got.Code != expected || got.Message != "m" || in.Code != test.code {
					t.Errorf("%s: got %v, want %d", r.Name, got, expected)
				}
				if got.Code == test.code && got != in {
					t.Errorf("%s: it was copied without need", r.Name)
				}
				if got.Code != mcp.CodeInternal && string(got.Data) != test.data {
					t.Errorf("%s: data became %s", r.Name, got.Data)
				}
			}
		})
	}
	t.Run("what was not relayed is told", func(t *testing.T) {
		got := Stateless().Error("tools/call", &mcp.Error{Code: -32001, Message: "Session not found"})
		if want := `{"upstreamCode":-32001,"upstreamMessage":"Session not found"}`; string(got.Data) != want {
			t.Errorf("got %s", got.Data)
		}
	})
	if Stateless().Error("ping", nil) != nil {
		t.Error("no error became one")
	}
}

// FuzzRevision: whatever a server sends remains JSON.
func FuzzRevision(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"type":"resource_link","name":"a"},1,null,{"type":"audio"}],"structuredContent":[1]}`,
		`{"resultType":1,"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`,
		`{"content":{},"structuredContent":null}`, `{"contents":[{"_meta":1}]}`,
		`{"messages":[{"content":{"type":"resource_link","icons":[],"annotations":{"lastModified":1}}}]}`, `[]`, `null`,
		`{"title":"a","annotations":[],"arguments":[{"title":1}],"outputSchema":1}`,
	} {
		f.Add([]byte(seed), 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, pick int) {
		if _, ok := scanned(data); !ok || !json.Valid(data) || len(data) != len(strings.TrimSpace(string(data))) {
			return
		}
		methods := []string{mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodToolsList,
			mcp.MethodPromptsList, mcp.MethodComplete, mcp.NoteProgress}
		method := methods[uint(pick)%uint(len(methods))]
		for _, r := range Revisions() {
			for _, got := range []mcp.Raw{
				r.Item(method, data), resultOf(r, method, data), r.Event(method, data), r.Params(method, data), r.ClientCaps(data),
				r.ServerCaps(data), r.Identity(data),
			} {
				if !json.Valid(got) {
					t.Fatalf("%s of %s became %s", method, data, got)
				}
			}
		}
	})
}
