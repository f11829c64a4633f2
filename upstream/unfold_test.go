package upstream

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestWantsDescription(t *testing.T) {
	const body = `{"error":{"code":"TOOL_DESCRIPTION_REQUIRED"}}`
	result := func(isError, text string) *mcp.Reply {
		return &mcp.Reply{Result: mcp.Raw(`{"isError":` + isError + `,"content":[{"type":"text","text":` +
			string(mcp.String(text)) + `}]}`)}
	}
	tests := []struct {
		name  string
		reply *mcp.Reply
		err   error
		want  bool
	}{
		{"the body", result("true", body), nil, true},
		{"words in front", result("true", "Error: "+body), nil, true},
		{"no error", result("false", body), nil, false},
		{"only the word", result("true", "TOOL_DESCRIPTION_REQUIRED"), nil, false},
		{"the word in another place", result("true", `{"error":{"code":"X","message":"TOOL_DESCRIPTION_REQUIRED"}}`),
			nil, false},
		{"words behind", result("true", body+" and more"), nil, false},
		{"another result", &mcp.Reply{Result: mcp.Raw(`{}`)}, nil, false},
		{"a question", &mcp.Reply{Ask: &mcp.Ask{}}, nil, false},
		{"an error's data", nil, &mcp.Error{Data: mcp.Raw(body)}, true},
		{"an error's data itself", nil, &mcp.Error{Data: mcp.Raw(`{"code":"TOOL_DESCRIPTION_REQUIRED"}`)}, true},
		{"an error's message", nil, &mcp.Error{Message: body}, true},
		{"another error", nil, &mcp.Error{Message: "TOOL_DESCRIPTION_REQUIRED"}, false},
		{"trouble", nil, errors.New(body), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := wantsDescription(tt.reply, tt.err); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func FuzzWantsDescription(f *testing.F) {
	f.Add(`{"error":{"code":"TOOL_DESCRIPTION_REQUIRED"}}`)
	f.Add(`TOOL_DESCRIPTION_REQUIRED {{`)
	f.Add(`{"code":"TOOL_DESCRIPTION_REQUIRED"},`)
	f.Fuzz(func(t *testing.T, text string) {
		if wantsDescription(nil, &mcp.Error{Message: text}) && !strings.Contains(text, "TOOL_DESCRIPTION_REQUIRED") {
			t.Error(text)
		}
	})
}
