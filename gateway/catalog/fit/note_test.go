package fit

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestCompletions(t *testing.T) {
	hundred := strings.TrimSuffix(strings.Repeat(`"v",`, 100), ",")
	for _, tt := range []struct{ in, want string }{ // no want: refused
		{`{"completion":{"values":["a"], "total":3,"hasMore":true,"x":null},"_meta":{}}`, ``},
		{`{"completion":{"values":[` + hundred + `]}}`, ``},
		{`{"completion":{"values":[` + hundred + `,"w"]}}`, `{"completion":{"values":[` + hundred + `],"hasMore":true}}`},
		{`{"completion":{"values":[` + hundred + `,"w"],"hasMore":false,"total":101}}`,
			`{"completion":{"values":[` + hundred + `],"hasMore":true,"total":101}}`},
		{`{"completion":{"values":["a",null],"total":null,"hasMore":null},"_meta":null}`, `{"completion":{"values":["a"]}}`},
		{`{"completion":{"values":["a"],"total":1.5}}`, `{"completion":{"values":["a"]}}`},
		{`{"completion":{"values":null}}`, `{"completion":{"values":[]}}`},
		{`{"completion":{}}`, `{"completion":{"values":[]}}`},
		{`{"completion":{"values":[1]}}`, `refused`},
		{`{"completion":{"values":"a"}}`, `refused`},
		{`{"completion":{"values":[],"hasMore":"no"}}`, `refused`},
		{`{"completion":null}`, `refused`},
		{`{}`, `refused`},
	} {
		got, err := Completion(mcp.Raw(tt.in))
		switch {
		case tt.want == "refused":
			if err == nil {
				t.Errorf("%s became %s", tt.in, got)
			}
		case tt.want == "" && string(got) != tt.in, tt.want != "" && string(got) != tt.want, err != nil:
			t.Errorf("%s became %s, %v", tt.in, got, err)
		}
	}
}

func TestEvents(t *testing.T) {
	for _, tt := range []struct{ method, in, want string }{ // no want: refused
		{mcp.NoteProgress, `{"progressToken":1, "progress":0.5,"total":1e2,"message":"m","x":null}`,
			`{"progressToken":1, "progress":0.5,"total":1e2,"message":"m","x":null}`},
		{mcp.NoteProgress, `{"progressToken":1,"progress":-1,"total":null,"message":null,"_meta":null}`,
			`{"progressToken":1,"progress":-1}`},
		{mcp.NoteProgress, `{"progress":null}`, ``},
		{mcp.NoteProgress, `{"progress":"1"}`, ``},
		{mcp.NoteProgress, `{"progress":1e400}`, ``},
		{mcp.NoteProgress, `{"progress":1,"total":"2"}`, ``},
		{mcp.NoteProgress, `{"progress":1,"message":2}`, ``},
		{mcp.NoteMessage, `{"level":"info","data":null,"logger":null}`, `{"level":"info","data":null}`},
		{mcp.NoteMessage, `{"level":"INFO","data":1}`, ``},
		{mcp.NoteMessage, `{"level":"info","logger":{}}`, ``},
		{mcp.NoteMessage, `{"level":"info","Logger":"x"}`, ``},
		{mcp.NoteMessage, `{"level":"info","\u006cogger":"x"}`, ``},
		{mcp.NoteTask, `{"x":null}`, `{"x":null}`},
	} {
		got, err := Event(tt.method, mcp.Raw(tt.in))
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %s became %s, %v", tt.method, tt.in, got, err)
		}
	}
}
