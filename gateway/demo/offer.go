package demo

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// offer lists what a server has.
type offer struct {
	Name, How string

	Tools     []string
	Prompts   []string
	Resources []string // URIs and URI templates
}

// ask lists what a server offers, over a connection in memory.
func ask(ctx context.Context, server *sdk.Server) (o offer, err error) {
	here, there := sdk.NewInMemoryTransports()
	serving, err := server.Connect(ctx, there, nil)
	if err != nil {
		return o, fmt.Errorf("connecting: %w", err)
	}
	defer serving.Close()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "demo", Version: version}, nil).Connect(ctx, here, nil)
	if err != nil {
		return o, fmt.Errorf("connecting: %w", err)
	}
	defer client.Close()

	for tool, err := range client.Tools(ctx, nil) {
		if err != nil {
			return o, fmt.Errorf("listing tools: %w", err)
		}
		o.Tools = append(o.Tools, tool.Name)
	}
	for prompt, err := range client.Prompts(ctx, nil) {
		if err != nil {
			return o, fmt.Errorf("listing prompts: %w", err)
		}
		o.Prompts = append(o.Prompts, prompt.Name)
	}
	for template, err := range client.ResourceTemplates(ctx, nil) {
		if err != nil {
			return o, fmt.Errorf("listing resource templates: %w", err)
		}
		o.Resources = append(o.Resources, template.URITemplate)
	}
	return o, nil
}
