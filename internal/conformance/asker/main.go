// Command asker stands in for the conformance suite's everything server where the
// suite's client and the server are of different eras: it has the tools of that
// server that ask the user, and asks in the manner of its own era alone. Without
// sessions it ends the round with input_required; with sessions it sends requests.
//
// It owns no state and starts no goroutines of its own.
package main

//lint:file-ignore SA1019 what the newest revision deprecates still has to pass through

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	addr := flag.String("http", "", "the address to listen on")
	stateless := flag.Bool("stateless", false, "speak the stateless revision")
	flag.Parse()
	server := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "test_simple_text"}, simpleText)
	if *stateless {
		mcp.AddTool(server, &mcp.Tool{Name: "test_sampling"}, sample)
		mcp.AddTool(server, &mcp.Tool{Name: "test_elicitation"}, elicit)
		mcp.AddTool(server, &mcp.Tool{Name: "test_elicitation_sep1034_defaults"}, elicitDefaults)
		mcp.AddTool(server, &mcp.Tool{Name: "test_elicitation_sep1330_enums"}, elicitEnums)
	} else {
		mcp.AddTool(server, &mcp.Tool{Name: "test_input_required_result_multi_round"}, twoRounds)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: *stateless})
	log.Fatal(http.ListenAndServe(*addr, handler))
}

func say(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func simpleText(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
	return say("This is a simple text response for testing."), nil, nil
}

// key is what the stateless tools call their one question.
const key = "question"

func ask(question mcp.InputRequest) *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{key: question}}
}

type prompt struct {
	Prompt string `json:"prompt"`
}

func sample(_ context.Context, req *mcp.CallToolRequest, in prompt) (*mcp.CallToolResult, any, error) {
	answer, ok := req.Params.InputResponses[key].(*mcp.CreateMessageWithToolsResult)
	if !ok {
		return ask(&mcp.CreateMessageParams{
			Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: in.Prompt}}},
			MaxTokens: 100,
		}), nil, nil
	}
	for _, block := range answer.Content {
		if text, ok := block.(*mcp.TextContent); ok {
			return say("LLM response: %s", text.Text), nil, nil
		}
	}
	return say("LLM response without text"), nil, nil
}

type message struct {
	Message string `json:"message"`
}

func elicit(_ context.Context, req *mcp.CallToolRequest, in message) (*mcp.CallToolResult, any, error) {
	return elicited(req, in.Message, object{"username": object{"type": "string"}})
}

func elicitDefaults(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
	return elicited(req, "Test defaults for primitives", object{
		"name":     object{"type": "string", "default": "John Doe"},
		"age":      object{"type": "integer", "default": 30},
		"score":    object{"type": "number", "default": 95.5},
		"status":   object{"type": "string", "enum": []string{"active", "inactive", "pending"}, "default": "active"},
		"verified": object{"type": "boolean", "default": true},
	})
}

func elicitEnums(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
	titled := []object{{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"},
		{"const": "value3", "title": "Third Option"}}
	plain := []string{"option1", "option2", "option3"}
	return elicited(req, "Test enum schemas", object{
		"untitledSingle": object{"type": "string", "enum": plain},
		"titledSingle":   object{"type": "string", "oneOf": titled},
		"legacyEnum": object{"type": "string", "enum": []string{"opt1", "opt2", "opt3"},
			"enumNames": []string{"Option One", "Option Two", "Option Three"}},
		"untitledMulti": object{"type": "array", "items": object{"type": "string", "enum": plain}},
		"titledMulti":   object{"type": "array", "items": object{"anyOf": titled}},
	})
}

type object map[string]any

func elicited(req *mcp.CallToolRequest, message string, properties object) (*mcp.CallToolResult, any, error) {
	answer, ok := req.Params.InputResponses[key].(*mcp.ElicitResult)
	if !ok {
		schema := object{"type": "object", "properties": properties}
		return ask(&mcp.ElicitParams{Message: message, RequestedSchema: schema}), nil, nil
	}
	return say("Elicitation result: action=%s, content=%v", answer.Action, answer.Content), nil, nil
}

func twoRounds(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
	var said []any
	for _, what := range []string{"name", "color"} {
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
			Message:         "What is it? " + what,
			RequestedSchema: object{"type": "object", "properties": object{what: object{"type": "string"}}},
		})
		if err != nil {
			return nil, nil, err
		}
		said = append(said, answer.Content[what])
	}
	return say("Multi-round complete: %v likes %v", said...), nil, nil
}
