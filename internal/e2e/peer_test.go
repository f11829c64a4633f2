package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

//lint:file-ignore SA1019 what the newest revision deprecates still has to pass through

// newPeer returns a go-sdk server with one tool for everything that can happen to a call.
// It reports to tell what happens to its calls.
func newPeer(revision string, tell func(event string)) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, &sdk.ServerOptions{
		Instructions:              "peer of " + revision,
		SupportedProtocolVersions: []string{revision},
		CompletionHandler:         completePeer,
		SubscribeHandler: func(_ context.Context, r *sdk.SubscribeRequest) error {
			tell("subscribed " + r.Params.URI)
			return nil
		},
		UnsubscribeHandler: func(_ context.Context, r *sdk.UnsubscribeRequest) error {
			tell("unsubscribed " + r.Params.URI)
			return nil
		},
	})
	sdk.AddTool(server, &sdk.Tool{Name: "echo", Title: "Echo"}, echo)
	sdk.AddTool(server, &sdk.Tool{Name: "fail"}, fail)
	sdk.AddTool(server, &sdk.Tool{Name: "count"}, count)
	sdk.AddTool(server, &sdk.Tool{Name: "links"}, links)
	sdk.AddTool(server, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest,
		in waitInput) (*sdk.CallToolResult, any, error) {
		tell("started " + in.Key)
		<-ctx.Done()
		tell("cancelled " + in.Key)
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(server, &sdk.Tool{Name: "exit"}, func(context.Context, *sdk.CallToolRequest,
		struct{}) (*sdk.CallToolResult, any, error) {
		os.Exit(3) // only in a process of its own
		return nil, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "touch"},
		func(ctx context.Context, _ *sdk.CallToolRequest, in touchInput) (*sdk.CallToolResult, any, error) {
			return says("touched"), nil, server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: in.URI})
		})
	sdk.AddTool(server, &sdk.Tool{Name: "confirm"}, asking("elicitation", &sdk.ElicitParams{
		Message:         "Really?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`),
	}))
	sdk.AddTool(server, &sdk.Tool{Name: "sample"}, asking("sampling", &sdk.CreateMessageParams{
		MaxTokens: 10,
		Messages:  []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "say something"}}},
	}))
	sdk.AddTool(server, &sdk.Tool{Name: "roots"}, asking("roots", &sdk.ListRootsParams{}))

	for uri, body := range peerResources {
		server.AddResource(&sdk.Resource{Name: uri, URI: uri, MIMEType: "text/plain"}, fixed(body))
	}
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "item", URITemplate: "test://item/{id}"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimPrefix(r.Params.URI, "test://item/")
			if id == "none" {
				return nil, sdk.ResourceNotFoundError(r.Params.URI)
			}
			return contents(r.Params.URI, "item "+id), nil
		})
	server.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: "Hello " + r.Params.Arguments["name"]}},
				{Role: "user", Content: &sdk.EmbeddedResource{
					Resource: &sdk.ResourceContents{URI: "test://static", Text: "static text"},
				}},
			}}, nil
		})
	return server
}

const unicodeURI = "test://ünicode/文"

// peerResources are the contents of resources, by URIs of every kind that a gateway could
// get wrong.
var peerResources = map[string]string{
	"test://static":                      "static text",
	"file:///a%20b/%C3%BC.txt":           "percent-encoded",
	"https://example.com/a?b=c&d=%2F#e":  "query and fragment",
	"urn:isbn:0451450523":                "opaque",
	unicodeURI:                           "unicode",
	"other+scheme://x":                   "a scheme with a plus",
	"file:///trailing/":                  "a slash at the end",
	"test://static/../%2e%2e/dot":        "dots that nobody may clean",
	"mailto:someone@example.com?subject": "opaque with a query",
}

// serve starts a go-sdk server over HTTP; stop also ends its sessions.
func serve(server *sdk.Server, stateless bool) (url string, stop func()) {
	return serveBy(server, sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: stateless, PropagateRequestCancellation: true}))
}

// serveSSE is serve over HTTP+SSE.
func serveSSE(server *sdk.Server, _ bool) (url string, stop func()) {
	return serveBy(server, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil))
}

func serveBy(server *sdk.Server, handler http.Handler) (url string, stop func()) {
	served := httptest.NewServer(handler)
	end := func() {
		for session := range server.Sessions() {
			session.Close()
		}
	}
	return served.URL, func() {
		end()
		served.CloseClientConnections()
		served.Close()
		end() // those that a gateway, which may go on, has begun meanwhile
	}
}

type textInput struct {
	Text string `json:"text"`
}

type echoOutput struct {
	Text   string `json:"text"`
	Length int    `json:"length"`
}

func echo(_ context.Context, _ *sdk.CallToolRequest, in textInput) (*sdk.CallToolResult, echoOutput, error) {
	return says(in.Text), echoOutput{Text: in.Text, Length: len(in.Text)}, nil
}

func fail(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
	return nil, nil, fmt.Errorf("the tool broke")
}

type countInput struct {
	To int `json:"to"`
}

// count reports progress at each number, and logs it once as debug and once as warning.
func count(ctx context.Context, req *sdk.CallToolRequest, in countInput) (*sdk.CallToolResult, any, error) {
	for i := 1; i <= in.To; i++ {
		for _, level := range []sdk.LoggingLevel{"debug", "warning"} {
			err := req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: level, Logger: "counter", Data: i})
			if err != nil {
				return nil, nil, err
			}
		}
		token := req.Params.GetProgressToken()
		if token == nil {
			continue
		}
		err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(i), Total: float64(in.To), Message: fmt.Sprint("at ", i),
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return says(fmt.Sprint("counted to ", in.To)), nil, nil
}

// links refers to resources in every way that a result can.
func links(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
	return &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.ResourceLink{URI: "test://static", Name: "static"},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "urn:isbn:0451450523", Text: "opaque"}},
		&sdk.TextContent{Text: "test://static is only mentioned here"},
	}}, nil, nil
}

type waitInput struct {
	Key string `json:"key"`
}

type touchInput struct {
	URI string `json:"uri"`
}

// asking is a tool that asks its client in the way of the call's revision, and returns the
// answer.
func asking(what string, question sdk.InputRequest) sdk.ToolHandlerFor[struct{}, any] {
	return func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		if req.ProtocolVersion() != stateless {
			answer, err := ask(ctx, req.Session, question)
			if err != nil {
				return nil, nil, fmt.Errorf("asking for %s: %w", what, err)
			}
			return says(told(answer)), nil, nil
		}
		if req.Params.InputResponses == nil {
			return &sdk.CallToolResult{
				InputRequests: sdk.InputRequestMap{"question": question},
				RequestState:  "state of " + what,
			}, nil, nil
		}
		if got := req.Params.RequestState; got != "state of "+what {
			return nil, nil, fmt.Errorf("the state came back as %q", got)
		}
		return says(told(req.Params.InputResponses["question"])), nil, nil
	}
}

// ask asks during the call, as stateful servers do.
func ask(ctx context.Context, session *sdk.ServerSession, question sdk.InputRequest) (sdk.InputResponse, error) {
	switch q := question.(type) {
	case *sdk.ElicitParams:
		return session.Elicit(ctx, q)
	case *sdk.CreateMessageParams:
		return session.CreateMessage(ctx, q)
	case *sdk.ListRootsParams:
		return session.ListRoots(ctx, q)
	}
	return nil, fmt.Errorf("question %T", question)
}

func told(answer sdk.InputResponse) string {
	switch a := answer.(type) {
	case *sdk.ElicitResult:
		return fmt.Sprint(a.Action, " because ", a.Content["reason"])
	case *sdk.CreateMessageResult:
		return fmt.Sprintf("%s: %s", a.Model, a.Content.(*sdk.TextContent).Text)
	case *sdk.CreateMessageWithToolsResult:
		return fmt.Sprintf("%s: %s", a.Model, a.Content[0].(*sdk.TextContent).Text)
	case *sdk.ListRootsResult:
		if len(a.Roots) > 0 {
			return a.Roots[0].URI
		}
	}
	return fmt.Sprintf("answer %T %+v", answer, answer)
}

func completePeer(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	of := r.Params.Ref.Name + r.Params.Ref.URI
	return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{
		Values: []string{of + " " + r.Params.Argument.Name + " " + r.Params.Argument.Value + "!"},
	}}, nil
}

func fixed(body string) sdk.ResourceHandler {
	return func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return contents(r.Params.URI, body), nil
	}
}

func contents(uri, body string) *sdk.ReadResourceResult {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: body}}}
}

func says(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
