package wire

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// refused in a byRevision means that the revision cannot express the question.
const refused = "refused"

// checkQuestion is byRevision.check for conversions that may refuse.
func (want byRevision) checkQuestion(t *testing.T, in string, convert func(*Revision, mcp.Raw) (mcp.Raw, error)) {
	t.Helper()
	expected := in
	for _, r := range slices.Backward(Revisions()) {
		if text, ok := want[r.Name]; ok {
			expected = text
		}
		raw := mcp.Raw(in)
		got, err := convert(r, raw)
		if string(raw) != in {
			t.Errorf("%s: the input was changed to %s", r.Name, raw)
		}
		if expected == refused {
			if err == nil {
				t.Errorf("%s: got %s, want a refusal", r.Name, got)
			}
			continue
		}
		if err != nil || string(got) != expected {
			t.Errorf("%s:\ngot  %s %v\nwant %s", r.Name, got, err, expected)
		}
		if string(got) == in && !same(got, raw) {
			t.Errorf("%s: it was copied without need", r.Name)
		}
	}
}

// TestAsk: the questions of servers, by revision of the client.
func TestAsk(t *testing.T) {
	form := func(properties string) string {
		return `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":` + properties +
			`,"required":["a"]}}`
	}
	oldForm := func(properties string) string {
		return `{"message":"m","requestedSchema":{"type":"object","properties":` + properties + `,"required":["a"]}}`
	}
	tests := []struct {
		name, method, in string
		want             byRevision
	}{
		{"a form of plain kinds", mcp.MethodElicit,
			form(`{"a":{"type":"string","format":"email","minLength":1,"default":"x"},"n":{"type":"integer","minimum":1.0,"default":3},"b":{"type":"boolean","default":true}}`),
			byRevision{
				"2025-06-18": oldForm(`{"a":{"type":"string","format":"email","minLength":1},"n":{"type":"integer","minimum":1.0},"b":{"type":"boolean","default":true}}`),
				"2025-03-26": refused,
			}},
		{"a form without a mode", mcp.MethodElicit, oldForm(`{"a":{"type":"string"}}`), byRevision{"2025-03-26": refused}},
		{"a titled single choice", mcp.MethodElicit,
			form(`{"a":{"type":"string","title":"A","oneOf":[{"const":"#f00","title":"Red"},{"const":"\u00e9","title":"E"}],"default":"#f00"},"z":{"type":"string"}}`),
			byRevision{
				"2025-06-18": oldForm(`{"a":{"type":"string","title":"A","enum":["#f00","\u00e9"],"enumNames":["Red","E"]},"z":{"type":"string"}}`),
				"2025-03-26": refused,
			}},
		{"a choice with a title missing", mcp.MethodElicit, oldForm(`{"a":{"type":"string","oneOf":[{"const":"x"}]}}`),
			byRevision{"2025-06-18": oldForm(`{"a":{"type":"string","enum":["x"],"enumNames":["x"]}}`), "2025-03-26": refused}},
		{"a choice of no strings", mcp.MethodElicit, oldForm(`{"a":{"oneOf":[{"const":1,"title":"One"}]}}`),
			byRevision{"2025-06-18": refused}},
		{"no choice at all", mcp.MethodElicit, oldForm(`{"a":{"oneOf":1}}`), byRevision{"2025-06-18": refused}},
		{"an untitled single choice", mcp.MethodElicit, oldForm(`{"a":{"type":"string","enum":["x","y"],"default":"x"}}`),
			byRevision{"2025-06-18": oldForm(`{"a":{"type":"string","enum":["x","y"]}}`), "2025-03-26": refused}},
		{"the old titled choice", mcp.MethodElicit, oldForm(`{"a":{"type":"string","enum":["x"],"enumNames":["X"]}}`),
			byRevision{"2025-03-26": refused}},
		{"a choice of several", mcp.MethodElicit,
			oldForm(`{"a":{"type":"array","items":{"type":"string","enum":["x"]},"minItems":1}}`),
			byRevision{"2025-06-18": refused}},
		{"a titled choice of several", mcp.MethodElicit,
			oldForm(`{"a":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}}}`),
			byRevision{"2025-06-18": refused}},
		{"a choice of several that the user may leave out", mcp.MethodElicit,
			form(`{"a":{"type":"string"},"b\u0062":{"type":"array","items":{"type":"string","enum":["x"]}},"c":{"oneOf":[{"const":1}]}}`),
			byRevision{"2025-06-18": oldForm(`{"a":{"type":"string"}}`), "2025-03-26": refused}},
		{"nothing but a choice that the user may leave out", mcp.MethodElicit,
			`{"message":"m","requestedSchema":{"type":"object","properties":{"b":{"type":"array"}}}}`,
			byRevision{"2025-06-18": `{"message":"m","requestedSchema":{"type":"object","properties":{}}}`,
				"2025-03-26": refused}},
		{"a choice of several that is needed, escaped", mcp.MethodElicit,
			oldForm(`{"b":{"type":"string"},"\u0061":{"type":"array"}}`), byRevision{"2025-06-18": refused,
				"2025-03-26": refused}},
		{"the dialect of a schema", mcp.MethodElicit,
			`{"message":"m","requestedSchema":{"$schema":"x","type":"object","properties":{}}}`,
			byRevision{"2025-06-18": `{"message":"m","requestedSchema":{"type":"object","properties":{}}}`,
				"2025-03-26": refused}},
		{"a URL", mcp.MethodElicit, `{"mode":"url","message":"m","url":"https://a.example/x","elicitationId":"e-1"}`,
			byRevision{
				"2026-07-28": `{"mode":"url","message":"m","url":"https://a.example/x"}`,
				"2025-11-25": `{"mode":"url","message":"m","url":"https://a.example/x","elicitationId":"e-1"}`,
				"2025-06-18": refused,
			}},
		{"sampling", mcp.MethodCreateMessage,
			`{"messages":[{"role":"user","content":{"type":"text","text":"a"}}],"maxTokens":1,"systemPrompt":"s"}`, nil},
		{"sampling with tools", mcp.MethodCreateMessage, `{"messages":[],"maxTokens":1,"tools":[]}`,
			byRevision{"2025-06-18": refused}},
		{"sampling with a choice of tools", mcp.MethodCreateMessage,
			`{"messages":[],"maxTokens":1,"toolChoice":{"mode":"none"}}`, byRevision{"2025-06-18": refused}},
		{"sampling of an array of one", mcp.MethodCreateMessage,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":1}`,
			byRevision{"2025-06-18": `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":1}`}},
		{"sampling of an array of two", mcp.MethodCreateMessage,
			`{"messages":[{"role":"user","content":[{"type":"text"},{"type":"text"}]}]}`, byRevision{"2025-06-18": refused}},
		{"sampling of an empty array", mcp.MethodCreateMessage, `{"messages":[{"role":"user","content":[]}]}`,
			byRevision{"2025-06-18": refused}},
		{"sampling of a tool's use", mcp.MethodCreateMessage,
			`{"messages":[{"role":"assistant","content":{"type":"tool_use"}}]}`, byRevision{"2025-06-18": refused}},
		{"sampling of a tool's result", mcp.MethodCreateMessage,
			`{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`, byRevision{"2025-06-18": refused}},
		{"_meta in sampling", mcp.MethodCreateMessage,
			`{"messages":[{"role":"user","_meta":{"a":1},"content":{"type":"text","text":"a","_meta":{"b":1}}}]}`,
			byRevision{
				"2025-06-18": `{"messages":[{"role":"user","content":{"type":"text","text":"a","_meta":{"b":1}}}]}`,
				"2025-03-26": `{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}`,
			}},
		{"sampling of audio", mcp.MethodCreateMessage,
			`{"messages":[{"role":"user","content":{"type":"audio","data":"AA","mimeType":"audio/wav"}}]}`,
			byRevision{"2024-11-05": refused}},
		{"sampling of an image", mcp.MethodCreateMessage,
			`{"messages":[{"role":"user","content":{"type":"image","data":"AA","mimeType":"image/png"}}]}`, nil},
		{"roots", mcp.MethodRootsList, `{}`, nil},
		{"roots without params", mcp.MethodRootsList, ``, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.want.checkQuestion(t, test.in, func(r *Revision, in mcp.Raw) (mcp.Raw, error) { return r.Ask(test.method, in) })
		})
	}
}

func TestAnswer(t *testing.T) {
	tests := []struct {
		name, method, in string
		want             byRevision
	}{
		{"a form", mcp.MethodElicit, `{"action":"accept","content":{"a":"x","n":1.0,"b":true}}`, nil},
		{"a choice of several", mcp.MethodElicit, `{"action":"accept","content":{"a":["x","y"]}}`,
			byRevision{"2025-06-18": refused}},
		{"no", mcp.MethodElicit, `{"action":"decline"}`, nil},
		{"_meta", mcp.MethodElicit, `{"action":"cancel","_meta":{"a":1}}`,
			byRevision{"2026-07-28": `{"action":"cancel"}`, "2025-11-25": `{"action":"cancel","_meta":{"a":1}}`}},
		{"a sample", mcp.MethodCreateMessage,
			`{"role":"assistant","model":"m","content":{"type":"text","text":"a"},"_meta":{"a":1}}`, nil},
		{"a sample in an array", mcp.MethodCreateMessage,
			`{"role":"assistant","model":"m","content":[{"type":"text","text":"a","_meta":{}}]}`,
			byRevision{
				"2025-06-18": `{"role":"assistant","model":"m","content":{"type":"text","text":"a","_meta":{}}}`,
				"2025-03-26": `{"role":"assistant","model":"m","content":{"type":"text","text":"a"}}`,
			}},
		{"a sample of two blocks", mcp.MethodCreateMessage,
			`{"role":"assistant","model":"m","content":[{"type":"text"},{"type":"text"}]}`, byRevision{"2025-06-18": refused}},
		{"a sample that uses a tool", mcp.MethodCreateMessage,
			`{"role":"assistant","model":"m","content":{"type":"tool_use"}}`, byRevision{"2025-06-18": refused}},
		{"a sample of audio", mcp.MethodCreateMessage, `{"role":"assistant","model":"m","content":{"type":"audio"}}`,
			byRevision{"2024-11-05": refused}},
		{"roots", mcp.MethodRootsList, `{"roots":[{"uri":"file:///a","name":"a","_meta":{"a":1}}],"_meta":{}}`,
			byRevision{
				"2026-07-28": `{"roots":[{"uri":"file:///a","name":"a","_meta":{"a":1}}]}`,
				"2025-11-25": `{"roots":[{"uri":"file:///a","name":"a","_meta":{"a":1}}],"_meta":{}}`,
				"2025-03-26": `{"roots":[{"uri":"file:///a","name":"a"}],"_meta":{}}`,
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.want.checkQuestion(t, test.in, func(r *Revision, in mcp.Raw) (mcp.Raw,
				error) {
				return r.Answer(test.method, in)
			})
		})
	}
}

func TestValidAnswer(t *testing.T) {
	for _, test := range []struct {
		method, answer string
		want           bool
	}{
		{mcp.MethodElicit, `{"action":"accept","content":{}}`, true},
		{mcp.MethodElicit, `{"action":"accept"}`, true},
		{mcp.MethodElicit, `{"action":"decline","content":null}`, true},
		{mcp.MethodElicit, `{"action":"perhaps"}`, false},
		{mcp.MethodElicit, `{"action":"accept","content":[1]}`, false},
		{mcp.MethodElicit, `{}`, false},
		{mcp.MethodElicit, `null`, false},
		{mcp.MethodElicit, ``, false},
		{mcp.MethodCreateMessage, `{"role":"assistant","content":{},"model":"m"}`, true},
		{mcp.MethodCreateMessage, `{"role":"assistant","content":[],"model":"m"}`, true},
		{mcp.MethodCreateMessage, `{"role":"assistant","content":"a","model":"m"}`, false},
		{mcp.MethodCreateMessage, `{"role":"assistant","content":{}}`, false},
		{mcp.MethodCreateMessage, `{"content":{},"model":"m"}`, false},
		{mcp.MethodRootsList, `{"roots":[]}`, true},
		{mcp.MethodRootsList, `{"roots":{}}`, false},
		{mcp.MethodRootsList, `[]`, false},
		{"ping", `{}`, false},
	} {
		if got := ValidAnswer(test.method, mcp.Raw(test.answer)); got != test.want {
			t.Errorf("%s %s: %t", test.method, test.answer, got)
		}
	}
}

// FuzzQuestion: every question and every answer remains JSON.
func FuzzQuestion(f *testing.F) {
	for _, seed := range []string{
		`{"mode":"form","requestedSchema":{"$schema":1,"properties":{"a":{"oneOf":[{"const":"x"},1]},"b":1,"c":{"default":[]}}}}`,
		`{"requestedSchema":{"properties":[{"oneOf":[]}]}}`, `{"messages":[{"content":[{"_meta":1}],"_meta":1},2]}`,
		`{"messages":{"content":1}}`,
		`{"roots":[{"_meta":1},1]}`, `{"action":"accept","content":{"a":[]},"_meta":1}`,
		`{"content":[{"type":"audio"}]}`, `[]`, `null`,
	} {
		f.Add([]byte(seed), 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, pick int) {
		if _, ok := scanned(data); !ok || !json.Valid(data) {
			return
		}
		method := []string{mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodRootsList}[uint(pick)%3]
		ValidAnswer(method, data)
		for _, r := range Revisions() {
			for _, convert := range []func(string, mcp.Raw) (mcp.Raw, error){r.Ask, r.Answer} {
				if got, err := convert(method, data); err == nil && !json.Valid(got) {
					t.Fatalf("%s of %s became %s", method, data, got)
				}
			}
		}
	})
}
