package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// take takes a step.
func (p *peer) take(ctx context.Context, s step) outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.mu.Lock()
	from := len(p.notes)
	p.token++
	token := fmt.Sprintf("token-%d-", p.token)
	p.mu.Unlock()
	if s.CancelAfter > 0 {
		go func() {
			if p.await(from, progressed, token) {
				cancel()
			}
		}()
	}
	o := outcome{Progress: []map[string]any{}}
	result, err := p.do(ctx, s, token)
	if err != nil {
		o.Error = explain(err)
		if s.CancelAfter > 0 && errors.Is(ctx.Err(), context.Canceled) {
			o.Error.Message = "the user changed their mind"
		}
	} else {
		o.Result = result
	}
	if s.Await != "" {
		o.Noticed = p.await(from, s.Await, s.About)
	}
	if s.Listed != "" {
		o.Noticed = p.grown(ctx, from, s.Listed)
	}
	progress, _ := p.find(from, progressed, token)
	for _, n := range progress {
		o.Progress = append(o.Progress, n.Params.AdditionalFields)
	}
	return o
}

// grown waits until a list that is fetched after a notification names a tool.
func (p *peer) grown(ctx context.Context, from int, name string) bool {
	end := time.After(patience)
	for seen := 0; ; {
		notices, more := p.find(from, mcp.MethodNotificationToolsListChanged, "")
		if len(notices) > seen {
			seen = len(notices)
			list, err := p.ListTools(ctx, mcp.ListToolsRequest{})
			if err == nil && slices.ContainsFunc(list.Tools, func(t mcp.Tool) bool { return t.Name == name }) {
				return true
			}
		}
		select {
		case <-more:
		case <-end:
			return false
		}
	}
}

// do sends the request of a step.
func (p *peer) do(ctx context.Context, s step, token string) (any, error) {
	switch s.Method {
	case "tools/list":
		return p.ListTools(ctx, mcp.ListToolsRequest{})
	case "resources/list":
		return p.ListResources(ctx, mcp.ListResourcesRequest{})
	case "resources/templates/list":
		return p.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
	case "prompts/list":
		return p.ListPrompts(ctx, mcp.ListPromptsRequest{})
	case "tools/call":
		var r mcp.CallToolRequest
		if err := json.Unmarshal(s.Params, &r.Params); err != nil {
			return nil, err
		}
		if s.Progress {
			r.Params.Meta = &mcp.Meta{ProgressToken: token}
		}
		return p.CallTool(ctx, r)
	case "resources/read":
		var r mcp.ReadResourceRequest
		if err := json.Unmarshal(s.Params, &r.Params); err != nil {
			return nil, err
		}
		return p.ReadResource(ctx, r)
	case "prompts/get":
		var r mcp.GetPromptRequest
		if err := json.Unmarshal(s.Params, &r.Params); err != nil {
			return nil, err
		}
		return p.GetPrompt(ctx, r)
	case "completion/complete":
		var r mcp.CompleteRequest
		if err := json.Unmarshal(s.Params, &r.Params); err != nil {
			return nil, err
		}
		return p.Complete(ctx, r)
	case "logging/setLevel":
		var r mcp.SetLevelRequest
		if err := json.Unmarshal(s.Params, &r.Params); err != nil {
			return nil, err
		}
		return object{}, p.SetLevel(ctx, r)
	case "listen":
		return object{}, p.listen(ctx, s)
	}
	return nil, fmt.Errorf("no such step: %s", s.Method)
}

// listen asks for changes of the list of tools and of resources: for the former, clients of revisions
// with sessions need not ask.
func (p *peer) listen(ctx context.Context, s step) error {
	var params struct{ URIs []string }
	if err := json.Unmarshal(s.Params, &params); err != nil {
		return err
	}
	if !mcp.IsModernProtocol(p.ProtocolVersion()) {
		for _, uri := range params.URIs {
			if err := p.Subscribe(ctx, mcp.SubscribeRequest{Params: mcp.SubscribeParams{URI: uri}}); err != nil {
				return err
			}
		}
		return nil
	}
	filter := mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: params.URIs}
	failed := make(chan error, 1)
	if _, err := p.ListenAsync(context.WithoutCancel(ctx), filter, func(err error) { failed <- err }); err != nil {
		return err
	}
	for end := time.After(patience); ; {
		found, more := p.find(0, mcp.MethodNotificationSubscriptionsAcknowledged, "")
		if len(found) > 0 {
			return nil
		}
		select {
		case <-more:
		case err := <-failed:
			return err
		case <-end:
			return errors.New("the server does not acknowledge")
		}
	}
}

const progressed = "notifications/progress"

type object = map[string]any

// explain returns an error as client.mjs does. The SDK keeps codes only as errors of its own.
func explain(err error) *fault {
	codes := map[error]int{
		mcp.ErrParseError:       mcp.PARSE_ERROR,
		mcp.ErrInvalidRequest:   mcp.INVALID_REQUEST,
		mcp.ErrMethodNotFound:   mcp.METHOD_NOT_FOUND,
		mcp.ErrInvalidParams:    mcp.INVALID_PARAMS,
		mcp.ErrInternalError:    mcp.INTERNAL_ERROR,
		mcp.ErrResourceNotFound: mcp.RESOURCE_NOT_FOUND,
	}
	f := &fault{Message: err.Error()}
	for known, code := range codes {
		if errors.Is(err, known) {
			f.Code = code
		}
	}
	return f
}
