package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// step is one action of the client, as client.mjs takes it.
type step struct {
	Method      string
	Params      json.RawMessage
	Progress    bool
	CancelAfter int
	Await       string // a notification that has to come, too
	About       string // what that notification names
	Listed      string // a tool that a new list has to name
}

// outcome is what came of a step.
type outcome struct {
	Progress []map[string]any `json:"progress"`
	Result   any              `json:"result,omitempty"`
	Error    *fault           `json:"error,omitempty"`
	Noticed  bool             `json:"noticed"`
}

type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// peer is a connected client, which answers questions.
type peer struct {
	*client.Client
	mu     sync.Mutex // guards what follows
	notes  []mcp.JSONRPCNotification
	change chan struct{} // closed by the next notification
	token  int           // of the latest request with progress
}

func connect(revision, url string, in io.Reader, out io.Writer) error {
	var steps []step
	if err := json.NewDecoder(in).Decode(&steps); err != nil {
		return err
	}
	options := []client.ClientOption{
		client.WithSamplingHandler(user{}), client.WithElicitationHandler(user{}), client.WithRootsHandler(user{}),
	}
	var over []transport.StreamableHTTPCOption
	if !mcp.IsModernProtocol(revision) {
		options = append(options, client.WithProtocolVersion(revision))
		over = append(over, transport.WithContinuousListening())
	}
	carrier, err := transport.NewStreamableHTTP(url, over...)
	if err != nil {
		return err
	}
	p := &peer{Client: client.NewClient(carrier, options...), change: make(chan struct{})}
	p.OnNotification(p.note)
	ctx := context.Background()
	if err := p.Start(ctx); err != nil {
		return err
	}
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: "interop", Version: "1.0.0"}
	welcome, err := p.Initialize(ctx, hello)
	if err != nil {
		return err
	}
	outcomes := make([]outcome, len(steps))
	for i, s := range steps {
		outcomes[i] = p.take(ctx, s)
	}
	if err := p.Close(); err != nil {
		return err
	}
	report := object{"version": p.ProtocolVersion(), "capabilities": welcome.Capabilities, "outcomes": outcomes}
	return json.NewEncoder(out).Encode(report)
}

// user answers what servers ask.
type user struct{}

func (user) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	accept := mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"name": "Ada"}}
	return &mcp.ElicitationResult{ElicitationResponse: accept}, nil
}

func (user) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	said := mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent("sampled")}
	return &mcp.CreateMessageResult{SamplingMessage: said, Model: "none"}, nil
}

func (user) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: os.Getenv("ROOT"), Name: "files"}}}, nil
}

func (p *peer) note(n mcp.JSONRPCNotification) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, n)
	close(p.change)
	p.change = make(chan struct{})
}

// find returns the notifications of a method that name something, from the nth notification on, and
// what is closed when there are more.
func (p *peer) find(from int, method, about string) (found []mcp.JSONRPCNotification, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.notes[from:] {
		if text, err := json.Marshal(n.Params); err == nil && n.Method == method && strings.Contains(string(text), about) {
			found = append(found, n)
		}
	}
	return found, p.change
}

// await waits until one has come.
func (p *peer) await(from int, method, about string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		found, more := p.find(from, method, about)
		if len(found) > 0 {
			return true
		}
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}
