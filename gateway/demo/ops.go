package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

//lint:file-ignore SA1019 log messages are deprecated in the newest revision, and this server speaks an older one

// ops is the deployment service of the stateful server.
type ops struct {
	server *sdk.Server

	mu       sync.Mutex // guards services
	services map[string]service
}

type service struct {
	Name       string `json:"name"`
	Owner      string `json:"owner"`
	Staging    string `json:"staging" jsonschema:"the version that runs in staging"`
	Production string `json:"production" jsonschema:"the version that runs in production"`
}

func (s service) uri() string { return "ops://services/" + s.Name }

// newOps makes the ops server, which speaks only the given revision.
func newOps(revision string) *sdk.Server {
	o := &ops{services: map[string]service{
		"billing": {Name: "billing", Owner: "payments", Staging: "2.4.1", Production: "2.4.0"},
		"search":  {Name: "search", Owner: "discovery", Staging: "0.9.7", Production: "0.9.7"},
		"web":     {Name: "web", Owner: "frontend", Staging: "1.3.0", Production: "1.2.8"},
	}}
	// The SDK manages the subscriptions; the presence of handlers enables them.
	subscribe := func(context.Context, *sdk.SubscribeRequest) error { return nil }
	unsubscribe := func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
	o.server = sdk.NewServer(
		&sdk.Implementation{Name: "ops", Title: "Deployment desk", Version: version},
		&sdk.ServerOptions{
			Instructions:              "Deploy to staging first. A deployment to production asks its user for a yes.",
			CompletionHandler:         o.complete,
			SubscribeHandler:          subscribe,
			UnsubscribeHandler:        unsubscribe,
			SupportedProtocolVersions: []string{revision},
		})
	sdk.AddTool(o.server, &sdk.Tool{
		Name: "services", Title: "List services", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
		Description: "Lists all services with their owners and the versions that run.",
	}, o.list)
	sdk.AddTool(o.server, &sdk.Tool{
		Name: "deploy", Title: "Deploy a service",
		Description: "Rolls a version out step by step. Reports progress and log messages; " +
			"asks for confirmation before it touches production.",
	}, o.deploy)
	o.server.AddResource(&sdk.Resource{
		Name: "services", Title: "All services", URI: "ops://services", MIMEType: "application/json",
		Description: "Every service with its versions.",
	}, o.resource)
	o.server.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "service", Title: "A service", URITemplate: "ops://services/{name}", MIMEType: "application/json",
		Description: "One service; subscribe to it to hear of deployments.",
	}, o.resource)
	o.server.AddPrompt(&sdk.Prompt{
		Name: "rollout-plan", Title: "Plan a rollout",
		Description: "Asks for a careful rollout plan for a service.",
		Arguments: []*sdk.PromptArgument{
			{Name: "service", Description: "the service to roll out", Required: true},
			{Name: "version", Description: "the version to reach", Required: true},
		},
	}, o.plan)
	return o.server
}

type servicesOutput struct {
	Services []service `json:"services"`
}

func (o *ops) list(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, servicesOutput, error) {
	return nil, servicesOutput{Services: o.all()}, nil
}

type deployInput struct {
	Service     string `json:"service" jsonschema:"billing, search or web"`
	Version     string `json:"version"`
	Environment string `json:"environment" jsonschema:"staging or production"`
	PaceMS      *int   `json:"pace_ms,omitempty" jsonschema:"milliseconds a step takes, default 200, at most 5000"`
}

type deployOutput struct {
	Service  service  `json:"service"`
	Previous string   `json:"previous" jsonschema:"the version that ran before"`
	Steps    []string `json:"steps"`
}

func (o *ops) deploy(ctx context.Context, req *sdk.CallToolRequest, in deployInput) (*sdk.CallToolResult,
	deployOutput, error) {
	if _, ok := o.get(in.Service); !ok {
		return nil, deployOutput{}, fmt.Errorf("unknown service %q: there are billing, search and web", in.Service)
	}
	if in.Version == "" {
		return nil, deployOutput{}, fmt.Errorf("version is empty")
	}
	switch in.Environment {
	case "staging":
	case "production":
		if err := confirm(ctx, req, in); err != nil {
			return nil, deployOutput{}, err
		}
	default:
		return nil, deployOutput{}, fmt.Errorf("environment %q: want staging or production", in.Environment)
	}
	pace := 200 * time.Millisecond
	if in.PaceMS != nil {
		pace = time.Duration(min(max(*in.PaceMS, 0), 5000)) * time.Millisecond
	}
	steps := []string{"pull image", "run migrations", "start canary", "shift traffic", "drain old version"}
	for i, step := range steps {
		if err := report(ctx, req, i, len(steps), step); err != nil {
			return nil, deployOutput{}, err
		}
		select {
		case <-ctx.Done():
			return nil, deployOutput{}, fmt.Errorf("stopped before %q: %w", step, context.Cause(ctx))
		case <-time.After(pace):
		}
	}
	if err := report(ctx, req, len(steps), len(steps), "done"); err != nil {
		return nil, deployOutput{}, err
	}
	now, previous := o.set(in)
	if err := o.server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: now.uri()}); err != nil {
		return nil, deployOutput{}, err
	}
	return nil, deployOutput{Service: now, Previous: previous, Steps: steps}, nil
}

// confirm asks the user during the call.
func confirm(ctx context.Context, req *sdk.CallToolRequest, in deployInput) error {
	if caps := req.ClientCapabilities(); caps == nil || caps.Elicitation == nil {
		return fmt.Errorf("production needs a confirmation, and this client cannot be asked (it declares no elicitation)")
	}
	answer, err := req.Session.Elicit(ctx, &sdk.ElicitParams{
		Message: fmt.Sprintf("Deploy %s %s to production?", in.Service, in.Version),
		RequestedSchema: json.RawMessage(`{"type":"object","required":["confirm"],"properties":{
			"confirm":{"type":"boolean","title":"Yes, deploy to production"},
			"reason":{"type":"string","title":"Why now"}}}`),
	})
	if err != nil {
		return fmt.Errorf("asking for confirmation: %w", err)
	}
	if answer.Action != "accept" || answer.Content["confirm"] != true {
		return fmt.Errorf("not deployed: the user did not confirm")
	}
	return nil
}

// report tells the client the progress of a deployment, as progress (if the client gave a token)
// and as a log message.
func report(ctx context.Context, req *sdk.CallToolRequest, done, total int, step string) error {
	if token := req.Params.GetProgressToken(); token != nil {
		err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(done), Total: float64(total), Message: step,
		})
		if err != nil {
			return err
		}
	}
	return req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Logger: "deploy", Data: step})
}

func (o *ops) resource(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	var shown any = servicesOutput{Services: o.all()}
	if name, ok := strings.CutPrefix(req.Params.URI, "ops://services/"); ok {
		found, ok := o.get(name)
		if !ok {
			return nil, sdk.ResourceNotFoundError(req.Params.URI)
		}
		shown = found
	}
	body, err := json.MarshalIndent(shown, "", "  ")
	if err != nil {
		return nil, err
	}
	result := text(req.Params.URI, string(body))
	result.Contents[0].MIMEType = "application/json"
	return result, nil
}

func (o *ops) plan(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
	name, want := req.Params.Arguments["service"], req.Params.Arguments["version"]
	found, ok := o.get(name)
	if !ok {
		return nil, fmt.Errorf("unknown service %q", name)
	}
	return &sdk.GetPromptResult{
		Description: "Rollout plan for " + name,
		Messages: []*sdk.PromptMessage{
			{Role: "user", Content: &sdk.TextContent{Text: fmt.Sprintf(
				"Plan the rollout of %s %s. Staging runs %s and production %s. "+
					"List the steps, what to watch at each, and when to go back.",
				name, want, found.Staging, found.Production)}},
			{Role: "user", Content: &sdk.ResourceLink{URI: found.uri(), Name: name, MIMEType: "application/json"}},
		},
	}, nil
}

func (o *ops) complete(_ context.Context, req *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	var values []string
	switch req.Params.Argument.Name {
	case "service", "name":
		for _, s := range o.all() {
			values = append(values, s.Name)
		}
	case "version":
		if s, ok := o.get(contextArgument(req, "service")); ok {
			values = []string{s.Staging, s.Production}
		}
	}
	return completion(values, req.Params.Argument.Value), nil
}

func (o *ops) get(name string) (service, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.services[name]
	return s, ok
}

func (o *ops) set(in deployInput) (now service, previous string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now = o.services[in.Service]
	if in.Environment == "production" {
		previous, now.Production = now.Production, in.Version
	} else {
		previous, now.Staging = now.Staging, in.Version
	}
	o.services[in.Service] = now
	return now, previous
}

func (o *ops) all() []service {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.SortedFunc(maps.Values(o.services), func(a, b service) int {
		return strings.Compare(a.Name, b.Name)
	})
}
