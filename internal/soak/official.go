package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// official starts a server of go-sdk that plays scripts without questions.
func official(l *ledger, name string, revision *wire.Revision) (*server, error) {
	lives := newLives()
	play := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"},
		&sdk.ServerOptions{SupportedProtocolVersions: []string{revision.Name}})
	sdk.AddTool(play, &sdk.Tool{Name: toolDo}, func(ctx context.Context, req *sdk.CallToolRequest,
		in script) (*sdk.CallToolResult, any, error) {
		ctx, end := lives.with(ctx)
		defer end()
		return enact(ctx, l, req, in)
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return play },
		&sdk.StreamableHTTPOptions{Stateless: !revision.Stateful, PropagateRequestCancellation: true})
	forget := func() {
		lives.end() // a session closes only after its calls have ended
		for session := range play.Sessions() {
			session.Close()
		}
	}
	g, err := newGate(handler, forget)
	if err != nil {
		return nil, err
	}
	return &server{
		name: name, revision: revision, gate: g,
		config: fmt.Sprintf("{name: %s, url: %q", name, g.url()+"/mcp"),
		load:   func() (running, sessions, asked int) { return 0, 0, 0 }, // go-sdk does not say
		close: func() {
			g.end()
			forget()
		},
	}, nil
}

// enact plays the script of a call.
func enact(ctx context.Context, l *ledger, req *sdk.CallToolRequest, in script) (*sdk.CallToolResult, any, error) {
	l.run(in.Nonce, 0)
	token := req.Params.GetProgressToken()
	for i := 1; i <= in.Progress; i++ {
		if err := wait(ctx, in.pause()); err != nil {
			return nil, nil, err
		}
		err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(i), Message: fmt.Sprintf("%s:%d", in.Nonce, i),
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if err := wait(ctx, in.pause()); err != nil {
		return nil, nil, err
	}
	switch in.End {
	case endFail:
		return nil, nil, &jsonrpc.Error{Code: failCode, Message: in.Nonce}
	case endHang:
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.result("")}}}, nil, nil
}

// lives ends everything that runs at a server when it crashes.
type lives struct {
	mu  sync.Mutex // guards the fields below
	now context.Context
	cut context.CancelFunc
}

func newLives() *lives {
	l := &lives{}
	l.now, l.cut = context.WithCancel(context.Background()) // until end
	return l
}

// with returns a context that also ends when the server crashes.
func (l *lives) with(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	now := l.now
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(now, cancel)
	return ctx, func() { stop(); cancel() }
}

// end ends everything that runs. Calls that begin later are not affected.
func (l *lives) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
	l.now, l.cut = context.WithCancel(context.Background()) // until the next end
}
