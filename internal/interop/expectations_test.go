//go:build interop

package interop

import (
	"strings"
	"testing"
)

// expectations returns the steps at one upstream.
func (u upstream) expectations(c client) []expectation {
	switch u.kind {
	case everything:
		return u.everything(c)
	case filesystem:
		return u.filesystem()
	default:
		return u.python(c)
	}
}

func (u upstream) everything(c client) []expectation {
	roots := []string{"MCP Roots (1 total)", "files"}
	if c.version == stateless { // the server learns about these only by asking during a call
		roots = []string{"roots"}
	}
	return []expectation{
		// Soon after a session begins, the server asks for the client's roots.
		{"asks for roots in mid-call", callTool(u.tool("trigger-long-running-operation"),
			object{"duration": 0.8, "steps": 1}),
			wantText("Long running operation completed. Duration: 0.8 seconds, Steps: 1.")},
		{"call", callTool(u.tool("get-sum"), object{"a": 2, "b": 3}), wantText("The sum of 2 and 3 is 5.")},
		{"structured content", callTool(u.tool("get-structured-content"), object{"location": "Chicago"}),
			func(t *testing.T, o outcome) {
				o.noError(t)
				if !strings.Contains(string(o.Result.StructuredContent), "temperature") {
					t.Errorf("structured content is %s", o.Result.StructuredContent)
				}
			}},
		{"image", callTool(u.tool("get-tiny-image"), nil), func(t *testing.T, o outcome) {
			o.noError(t)
			for _, c := range o.Result.Content {
				if c.Type == "image" && c.MimeType == "image/png" && len(c.Data) > 1000 {
					return
				}
			}
			t.Error("no image in the result")
		}},
		{"resource links", callTool(u.tool("get-resource-links"), object{"count": 2}), func(t *testing.T, o outcome) {
			o.noError(t)
			var links []string
			for _, c := range o.Result.Content {
				if c.Type == "resource_link" {
					links = append(links, c.URI)
				}
			}
			containsAll(t, links, []string{u.uri("demo://resource/dynamic/blob/1"), u.uri("demo://resource/dynamic/text/2")})
		}},
		{"embedded resource", callTool(u.tool("get-resource-reference"), object{"resourceType": "Text", "resourceId": 3}),
			func(t *testing.T, o outcome) {
				o.noError(t)
				for _, c := range o.Result.Content {
					if c.Resource != nil && c.Resource.URI == u.uri("demo://resource/dynamic/text/3") {
						return
					}
				}
				t.Errorf("no such resource in %+v", o.Result.Content)
			}},
		{"progress", progress(callTool(u.tool("trigger-long-running-operation"), object{"duration": 0.4, "steps": 4})),
			wantProgress(c, 4, "Long running operation completed. Duration: 0.4 seconds, Steps: 4.")},
		{"asks for a form", callTool(u.tool("trigger-elicitation-request"), nil),
			wantTextWith("User provided the requested information", "Ada")},
		{"asks to open a page", callTool(u.tool("trigger-url-elicitation"), object{"url": "https://example.com/page"}),
			wantTextWith("User completed the URL elicitation flow")},
		{"asks to open a page of no good", callTool(u.tool("trigger-url-elicitation"),
			object{"url": "http://169.254.169.254/"}), wantTextWith("the user is not sent there")},
		{"asks to sample", callTool(u.tool("trigger-sampling-request"), object{"prompt": "hello"}),
			wantTextWith("LLM sampling result", "sampled")},
		{"asks for roots", callTool(u.tool("get-roots-list"), nil), wantTextWith(roots...)},
		{"cancel", cancelled(callTool(u.tool("trigger-long-running-operation"), object{"duration": 30, "steps": 300})),
			wantCancelled},
		{"read", readResource(u.uri("demo://resource/static/document/features.md")), func(t *testing.T, o outcome) {
			o.wantContents(t, u.uri("demo://resource/static/document/features.md"), "# Everything Server - Features")
		}},
		{"read by template", readResource(u.uri("demo://resource/dynamic/text/7")), func(t *testing.T, o outcome) {
			o.wantContents(t, u.uri("demo://resource/dynamic/text/7"), "Resource 7:")
		}},
		{"prompt", getPrompt(u.tool("args-prompt"), object{"city": "Bern"}), wantMessage("What's weather in Bern?")},
		{"prompt with a resource", getPrompt(u.tool("resource-prompt"), object{"resourceType": "Text", "resourceId": "5"}),
			func(t *testing.T, o outcome) {
				o.noError(t)
				for _, m := range o.Result.Messages {
					if r := m.Content.Resource; r != nil && r.URI == u.uri("demo://resource/dynamic/text/5") {
						return
					}
				}
				t.Errorf("no such resource in %+v", o.Result.Messages)
			}},
		{"complete a prompt's argument", step{Method: "completion/complete", Params: object{
			"ref":      object{"type": "ref/prompt", "name": u.tool("completable-prompt")},
			"argument": object{"name": "department", "value": "E"},
		}}, wantValues("Engineering")},
		{"complete a template's variable", step{Method: "completion/complete", Params: object{
			"ref":      object{"type": "ref/resource", "uri": u.uri("demo://resource/dynamic/text/{resourceId}")},
			"argument": object{"name": "resourceId", "value": "12"},
		}}, wantValues("12")},
	}
}

func (u upstream) filesystem() []expectation {
	return []expectation{
		{"call", callTool(u.tool("read_text_file"), object{"path": "note.txt"}), wantText("remember the milk")},
		{"tool error", callTool(u.tool("read_text_file"), object{"path": "/etc/passwd"}), func(t *testing.T, o outcome) {
			o.noError(t)
			if !o.Result.IsError {
				t.Errorf("the answer is %+v", o.Result)
			}
		}},
	}
}

func (u upstream) python(c client) []expectation {
	id := object{"name": c.name + " at " + u.name}
	return []expectation{
		{"call", callTool(u.tool("add"), object{"a": 2, "b": 3}), func(t *testing.T, o outcome) {
			o.noError(t)
			if string(o.Result.StructuredContent) != `{"sum":5}` {
				t.Errorf("structured content is %s", o.Result.StructuredContent)
			}
		}},
		{"progress", progress(callTool(u.tool("count"), object{"to": 4})), wantProgress(c, 4, "counted to 4")},
		{"cancel", cancelled(callTool(u.tool("hang"), id)), wantCancelled},
		{"cancel reached the server", callTool(u.tool("cancelled"), id), wantText("yes")},
		{"tool error", callTool(u.tool("fail"), nil), func(t *testing.T, o outcome) {
			o.noError(t)
			if !o.Result.IsError || !strings.HasPrefix(o.Result.Content[0].Text, "Error executing tool fail") {
				t.Errorf("the answer is %+v", o.Result)
			}
		}},
		{"read", readResource(u.uri("memo://today")), func(t *testing.T, o outcome) {
			o.wantContents(t, u.uri("memo://today"), "nothing to do")
		}},
		{"read by template", readResource(u.uri("memo://day/monday")), func(t *testing.T, o outcome) {
			o.wantContents(t, u.uri("memo://day/monday"), "memo of monday")
		}},
		{"prompt", getPrompt(u.tool("review"), object{"code": "x = 1"}), wantMessage("Please review: x = 1")},
		// A client of either era answers a server of either era.
		{"asks the user", callTool(u.tool("greet"), nil), wantText("hello Ada")},
	}
}

type object = map[string]any

func callTool(name string, arguments object) step {
	if arguments == nil {
		arguments = object{}
	}
	return step{Method: "tools/call", Params: object{"name": name, "arguments": arguments}}
}

func readResource(uri string) step {
	return step{Method: "resources/read", Params: object{"uri": uri}}
}

func getPrompt(name string, arguments object) step {
	return step{Method: "prompts/get", Params: object{"name": name, "arguments": arguments}}
}

func progress(s step) step {
	s.Progress = true
	return s
}

func cancelled(s step) step {
	s.Progress, s.CancelAfter = true, 1
	return s
}

func (o outcome) noError(t *testing.T) {
	t.Helper()
	if o.Error != nil {
		t.Fatalf("error %d: %s", o.Error.Code, o.Error.Message)
	}
}

func (o outcome) wantError(t *testing.T, code int) {
	t.Helper()
	if o.Error == nil || o.Error.Code != code {
		t.Errorf("error is %+v, want code %d", o.Error, code)
	}
}

func (o outcome) wantContents(t *testing.T, uri, text string) {
	t.Helper()
	o.noError(t)
	if len(o.Result.Contents) != 1 || o.Result.Contents[0].URI != uri ||
		!strings.Contains(o.Result.Contents[0].Text, text) {
		t.Errorf("contents are %+v, want %s with %q", o.Result.Contents, uri, text)
	}
}

func wantText(text string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		o.noError(t)
		if o.Result.IsError || len(o.Result.Content) != 1 || o.Result.Content[0].Text != text {
			t.Errorf("the answer is %+v, want %q", o.Result, text)
		}
	}
}

// wantTextWith requires all of these parts in the texts of an answer, which may be those of
// an error.
func wantTextWith(parts ...string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		o.noError(t)
		var all strings.Builder
		for _, c := range o.Result.Content {
			all.WriteString(c.Text)
		}
		for _, part := range parts {
			if !strings.Contains(all.String(), part) {
				t.Errorf("the answer is %+v, want one with %q", o.Result, part)
			}
		}
	}
}

func wantMessage(text string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		o.noError(t)
		if len(o.Result.Messages) != 1 || o.Result.Messages[0].Content.Text != text {
			t.Errorf("messages are %+v, want %q", o.Result.Messages, text)
		}
	}
}

func wantValues(value string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		o.noError(t)
		if v := o.Result.Completion.Values; len(v) != 1 || v[0] != value {
			t.Errorf("values are %q, want %q", v, value)
		}
	}
}

// wantProgress requires n events in order, then the text. Over HTTP+SSE and stdio the SDK drops
// events that it reads together with the answer, because it handles the answer first.
func wantProgress(c client, n int, text string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		wantText(text)(t, o)
		if len(o.Progress) > n || len(o.Progress) < n && !strings.HasPrefix(c.mode, "sse") && !c.bridge {
			t.Fatalf("progress is %v, want %d events", o.Progress, n)
		}
		for i, p := range o.Progress {
			if p.Progress != float64(i+1) || p.Total != float64(n) {
				t.Errorf("event %d is %v of %v", i, p.Progress, p.Total)
			}
		}
	}
}

// wantCancelled requires the client program's report of a call that it cancelled itself.
func wantCancelled(t *testing.T, o outcome) {
	if o.Error == nil || !strings.Contains(o.Error.Message, "changed their mind") {
		t.Errorf("the outcome is %+v, want the client's own cancellation", o)
	}
	if len(o.Progress) != 1 {
		t.Errorf("progress is %v, want one event", o.Progress)
	}
}
