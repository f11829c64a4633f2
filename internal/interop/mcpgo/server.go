package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// patience is how long a tool waits for what has to come.
const patience = time.Minute

const today = "memo://today"

// program is the server and what its tools share.
type program struct {
	*server.MCPServer
	mu          sync.Mutex               // guards what follows
	stopped     map[string]chan struct{} // by the name of a call of hang: closed when it is cancelled
	subscribers map[subscription]bool
}

// subscription is that of a session to a resource.
type subscription struct{ session, uri string }

func serve(addr string) error {
	p := &program{stopped: map[string]chan struct{}{}, subscribers: map[subscription]bool{}}
	hooks := &server.Hooks{}
	// Over HTTP, sessions of this SDK do not remember what their clients have subscribed to.
	hooks.AddAfterSubscribe(func(ctx context.Context, _ any, r *mcp.SubscribeRequest, _ *mcp.EmptyResult) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.subscribers[subscription{server.ClientSessionFromContext(ctx).SessionID(), r.Params.URI}] = true
	})
	p.MCPServer = server.NewMCPServer("mcp-go", "1.0.0",
		server.WithHooks(hooks), server.WithLogging(), server.WithElicitation(), server.WithRoots(),
		server.WithCompletions(), server.WithPromptCompletionProvider(completer{}),
		server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true), server.WithPromptCapabilities(true))
	p.EnableSampling()
	p.offer()
	// The endpoint keeps events, so that a client can go on where a connection broke off.
	endpoint := server.NewStreamableHTTPServer(p.MCPServer, server.WithEventStore(server.NewInMemoryEventStore()))
	mux := http.NewServeMux()
	mux.Handle("/mcp", watched(endpoint))
	return (&http.Server{Addr: addr, Handler: mux, ConnContext: withConnection}).ListenAndServe()
}

// offer adds the tools, the resources and the prompt.
func (p *program) offer() {
	text, to, name := mcp.WithString("text"), mcp.WithNumber("to"), mcp.WithString("name")
	p.AddTool(mcp.NewTool("echo", text), says(func(r mcp.CallToolRequest) string { return r.GetString("text", "") }))
	p.AddTool(mcp.NewTool("count", to), p.count)
	p.AddTool(mcp.NewTool("confirm"), confirm)
	p.AddTool(mcp.NewTool("sample"), sample)
	p.AddTool(mcp.NewTool("roots"), roots)
	p.AddTool(mcp.NewTool("hang", name), p.hang)
	p.AddTool(mcp.NewTool("cancelled", name), p.cancelled)
	p.AddTool(mcp.NewTool("log", text), p.log)
	p.AddTool(mcp.NewTool("grow", name), p.grow)
	p.AddTool(mcp.NewTool("touch", mcp.WithString("uri")), p.touch)
	p.AddTool(mcp.NewTool("pause"), p.pause)

	p.AddResource(mcp.NewResource(today, "today"), read(func(string) string { return "nothing to do" }))
	day := read(func(uri string) string { return "memo of " + uri[len("memo://day/"):] })
	p.AddResourceTemplate(mcp.NewResourceTemplate("memo://day/{day}", "day"), server.ResourceTemplateHandlerFunc(day))
	p.AddPrompt(mcp.NewPrompt("review", mcp.WithArgument("code")), review)
}

func review(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	please := mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("Please review: "+r.Params.Arguments["code"]))
	return mcp.NewGetPromptResult("", []mcp.PromptMessage{please}), nil
}

// completer completes the argument of the prompt.
type completer struct{}

func (completer) CompletePromptArgument(
	_ context.Context, _ string, argument mcp.CompleteArgument, _ mcp.CompleteContext,
) (*mcp.Completion, error) {
	return &mcp.Completion{Values: []string{argument.Value + "!"}}, nil
}

func says(text func(mcp.CallToolRequest) string) server.ToolHandlerFunc {
	return func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(text(r)), nil
	}
}

func read(text func(uri string) string) server.ResourceHandlerFunc {
	return func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		memo := mcp.TextResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Text: text(r.Params.URI)}
		return []mcp.ResourceContents{memo}, nil
	}
}

// watches reports whether the caller wants progress.
func watches(r mcp.CallToolRequest) bool {
	return r.Params.Meta != nil && r.Params.Meta.ProgressToken != nil
}

// progress tells the caller, if it wants to know.
func (p *program) progress(ctx context.Context, r mcp.CallToolRequest, done, total int) error {
	if !watches(r) {
		return nil
	}
	return p.SendNotificationToClient(ctx, "notifications/progress",
		object{"progressToken": r.Params.Meta.ProgressToken, "progress": done, "total": total})
}

// settle waits until notifications of a call have been sent: where the revision has no sessions, the SDK
// may drop those that it is about to send when the tool ends.
func settle(ctx context.Context, notifications int) error {
	if !server.IsModernRequest(ctx) {
		return nil
	}
	return waitSent(ctx, notifications)
}

func (p *program) count(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	to := r.GetInt("to", 0)
	for i := 1; i <= to; i++ {
		if err := p.progress(ctx, r, i, to); err != nil {
			return nil, err
		}
	}
	if watches(r) {
		if err := settle(ctx, to); err != nil {
			return nil, err
		}
	}
	return mcp.NewToolResultText(fmt.Sprintf("counted to %d", to)), nil
}

// confirm, sample and roots ask one question. Where the revision has sessions, the SDK asks it itself: to
// elicit, on the stream of the call; to sample and for roots, on the GET stream, while it holds the head
// of the call's answer back.
func confirm(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer := server.ElicitationResponse(r.Params.InputResponses, "question")
	if answer == nil {
		return server.NewInputRequestBuilder("").Elicit("question", whoAreYou()).ToolResult(), nil
	}
	said, _ := answer.Content.(object)
	return mcp.NewToolResultText(fmt.Sprintf("%s %v", answer.Action, said["name"])), nil
}

func whoAreYou() mcp.ElicitationParams {
	properties := object{"name": object{"type": "string"}}
	schema := object{"type": "object", "properties": properties, "required": []string{"name"}}
	return mcp.ElicitationParams{Message: "Who are you?", RequestedSchema: schema}
}

func sample(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer := server.SamplingResponse(r.Params.InputResponses, "question")
	if answer == nil {
		say := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.NewTextContent("say something")}
		question := mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{say}, MaxTokens: 10}
		return server.NewInputRequestBuilder("").Sample("question", question).ToolResult(), nil
	}
	content, err := mcp.ParseSamplingContent(answer.Content)
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(mcp.GetTextFromContent(content)), nil
}

func roots(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer := server.RootsResponse(r.Params.InputResponses, "question")
	if answer == nil {
		return server.NewInputRequestBuilder("").Roots("question").ToolResult(), nil
	}
	return mcp.NewToolResultText(answer.Roots[0].Name), nil
}

// of returns what is closed when the call of hang with this name is cancelled.
func (p *program) of(name string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped[name] == nil {
		p.stopped[name] = make(chan struct{})
	}
	return p.stopped[name]
}

func (p *program) hang(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := p.progress(ctx, r, 1, 2); err != nil {
		return nil, err
	}
	<-ctx.Done()
	close(p.of(r.GetString("name", "")))
	return nil, ctx.Err()
}

func (p *program) cancelled(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	select {
	case <-p.of(r.GetString("name", "")):
		return mcp.NewToolResultText("yes"), nil
	case <-time.After(patience):
		return mcp.NewToolResultText("no"), nil
	}
}

func (p *program) log(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	message := mcp.NewLoggingMessageNotification(mcp.LoggingLevelWarning, "interop", r.GetString("text", ""))
	if err := p.SendLogMessageToClient(ctx, message); err != nil {
		return nil, err
	}
	var err error
	if info := server.RequestProtocolInfoFromContext(ctx); info == nil || !info.Modern {
		// The message may take the session's stream: while the client answers, it comes before the result.
		_, err = p.RequestElicitation(ctx, mcp.ElicitationRequest{Params: whoAreYou()})
	} else if info.LogLevel != "" {
		err = settle(ctx, 1)
	}
	return mcp.NewToolResultText("logged"), err
}

// grow adds a tool, which the SDK tells all clients.
func (p *program) grow(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	p.AddTool(mcp.NewTool(r.GetString("name", "")), says(func(mcp.CallToolRequest) string { return "new" }))
	return mcp.NewToolResultText("grown"), nil
}

// touch tells those who have subscribed to a resource that it has changed.
func (p *program) touch(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	uri := r.GetString("uri", "")
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subscribers {
		if s.uri == uri {
			// A session that has ended is no fault of this caller.
			_ = p.SendNotificationToSpecificClient(s.session, "notifications/resources/updated", object{"uri": uri})
		}
	}
	return mcp.NewToolResultText("touched"), nil
}

// pause asks a question, which begins the stream of the call's answer, and breaks the connection off once it
// is answered: who wants the rest has to ask for it.
func (p *program) pause(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer, err := p.RequestElicitation(ctx, mcp.ElicitationRequest{Params: whoAreYou()})
	if err != nil {
		return nil, err
	}
	if err := breakOff(ctx); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(fmt.Sprintf("%s and went on", answer.Action)), nil
}
