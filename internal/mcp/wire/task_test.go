package wire

import (
	"encoding/json"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestTasksThereAndBack(t *testing.T) {
	rev := NewestStateful()
	tests := []struct {
		name, method     string
		core, inner, out string // out is core again, "" for the same
	}{
		{"all there is", mcp.MethodTasksGet,
			`{"taskId":"1","status":"working","statusMessage":"m","createdAt":"c","lastUpdatedAt":"u","x":{"ttl":1},"ttl":60000,"pollInterval":5000}`,
			`{"taskId":"1","status":"working","statusMessage":"m","createdAt":"c","lastUpdatedAt":"u","x":{"ttl":1},"ttlMs":60000,"pollIntervalMs":5000}`, ""},
		{"one that lives for ever", mcp.MethodTasksCancel, `{"taskId":"1","ttl":null}`, `{"taskId":"1","ttlMs":null}`, ""},
		{"one that does not tell", mcp.MethodTasksGet, `{"taskId":"1"}`, `{"taskId":"1","ttlMs":null}`,
			`{"taskId":"1","ttl":null}`},
		{"numbers keep their text", mcp.MethodTasksGet, `{"taskId":"1","ttl":1e3,"pollInterval":1.50}`,
			`{"taskId":"1","ttlMs":1e3,"pollIntervalMs":1.50}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inner := ReadTask(mcp.Raw(tt.core))
			if string(inner) != tt.inner {
				t.Errorf("inside it is\n%s, want\n%s", inner, tt.inner)
			}
			want := tt.out
			if want == "" {
				want = tt.core
			}
			if got := resultOf(rev, tt.method, inner); string(got) != want {
				t.Errorf("a client reads\n%s, want\n%s", got, want)
			}
			if got := rev.Event(mcp.NoteTask, inner); string(got) != want {
				t.Errorf("it is told\n%s, want\n%s", got, want)
			}
		})
	}
}

func TestCreatedTask(t *testing.T) {
	const core = `{"task":{"taskId":"1","status":"working","ttl":null},"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}`
	inner, ok := ReadCreatedTask(mcp.Raw(core))
	const want = `{"taskId":"1","status":"working","ttlMs":null,"resultType":"task","_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}`
	if !ok || string(inner) != want {
		t.Fatalf("inside it is\n%s, want\n%s", inner, want)
	}
	if got := resultOf(NewestStateful(), mcp.MethodToolsCall, inner); string(got) != core {
		t.Errorf("a client reads\n%s, want\n%s", got, core)
	}
	for _, result := range []string{`{"content":[]}`, `{"task":"t"}`, `{}`,
		`{"structuredContent":{"task":{"taskId":"1"}}}`} {
		if task, ok := ReadCreatedTask(mcp.Raw(result)); ok {
			t.Errorf("%s is the task %s", result, task)
		}
	}
}

// A 2025-11-25 client gets no member of a task that only the extension has.
func TestTaskOfTheExtensionIsCut(t *testing.T) {
	const in = `{"resultType":"complete","taskId":"1","status":"completed","ttlMs":5,"result":{"content":[]},"inputRequests":{},"error":{"code":1}}`
	if got := resultOf(NewestStateful(), mcp.MethodTasksGet,
		mcp.Raw(in)); string(got) != `{"taskId":"1","status":"completed","ttl":5}` {
		t.Errorf("got %s", got)
	}
}

// The result of a task is that of a tool.
func TestResultOfATask(t *testing.T) {
	in := mcp.Raw(`{"content":[],"structuredContent":[1],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`)
	want := resultOf(NewestStateful(), mcp.MethodToolsCall, in)
	if got := resultOf(NewestStateful(), mcp.MethodTasksResult, in); string(got) != string(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzTask(f *testing.F) {
	f.Add([]byte(`{"taskId":"1","ttl":1,"pollInterval":2}`))
	f.Add([]byte(`{"task":{"ttl":null},"_meta":1}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		message := append(append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), in...), '}')
		m, err := Scan(message)
		if err != nil || !m.Result.IsObject() {
			return
		}
		outs := []mcp.Raw{ReadTask(m.Result), coreTask(m.Result), coreCreatedTask(m.Result)}
		if task, ok := ReadCreatedTask(m.Result); ok {
			outs = append(outs, task)
		}
		for _, out := range outs {
			if !json.Valid(out) {
				t.Errorf("%s became %s", m.Result, out)
			}
		}
	})
}
