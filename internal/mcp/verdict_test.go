package mcp

import (
	"context"
	"errors"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// TestVerdictAnswered: whether a call has run is said by what its server answered, and never taken
// back by a later round.
func TestVerdictAnswered(t *testing.T) {
	ok, asks := &Reply{Result: Raw(`{"content":[]}`)}, &Reply{Ask: &Ask{}}
	for _, tt := range []struct {
		name    string
		reached int
		before  Executed
		reply   *Reply
		err     error
		want    Executed
	}{
		{"it was not written", 0, "", nil, context.Canceled, ""},
		{"a result without a server", 0, "", ok, nil, ""},
		{"a result", 1, "", ok, nil, ExecutedYes},
		{"a question", 1, "", asks, nil, ExecutedUnknown},
		{"the caller left", 1, "", nil, context.Canceled, ExecutedUnknown},
		{"not sent", 1, "", nil, UpstreamError(failure.UpstreamDown, "crm", ExecutedNo, "down"), ""},
		{"not sent after a question", 2, ExecutedUnknown, nil, UpstreamError(failure.UpstreamDown, "crm", ExecutedNo, "down"),
			ExecutedUnknown},
		{"cut off", 1, "", nil, UpstreamError(failure.UpstreamCut, "crm", ExecutedUnknown, "cut"), ExecutedUnknown},
		{"the server's own error", 1, "", nil, Relayed(-32000, "no", Raw(`{"executed":"no"}`)), ExecutedUnknown},
		{"a result after a question", 2, ExecutedUnknown, ok, nil, ExecutedYes},
		{"an error of ours", 1, "", nil, errors.New("oops"), ExecutedUnknown},
	} {
		v := &Verdict{Reached: tt.reached, Executed: tt.before}
		if v.Answered(MethodToolsCall, tt.reply, tt.err); v.Executed != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, v.Executed, tt.want)
		}
	}
}

func TestVerdictToolError(t *testing.T) {
	for result, want := range map[string]string{
		`{"content":[{"type":"text","text":"disk full"}],"isError":true}`:                  "disk full",
		`{"isError" : true,"content":[{"type":"image"},{"type":"text","text":"second"}]}`:  "second",
		`{"content":[{"type":"text","text":"fine"}],"isError":false}`:                      "-",
		`{"content":[{"type":"text","text":"\"isError\":true"}]}`:                          "-",
		`{"content":[],"structuredContent":{"isError":true}}`:                              "-",
		`{"structuredContent":{"isError":false},"content":[{"text":"b"}],"isError":true}`:  "b",
		`{"structuredContent":{"isError":true},"content":[{"text":"c"}],"isError":false }`: "-",
	} {
		v := &Verdict{Reached: 1}
		v.Answered(MethodToolsCall, &Reply{Result: Raw(result)}, nil)
		if v.ToolError != (want != "-") || v.ToolError && v.ServerError != want {
			t.Errorf("%s: got %t, %q", result, v.ToolError, v.ServerError)
		}
		if v.Executed != ExecutedYes {
			t.Errorf("%s: executed %q", result, v.Executed)
		}
	}
}
