package demo

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

//go:embed handbook/*.md
var handbookFiles embed.FS

// handbookURI precedes a page's name in its URI.
const handbookURI = "file:///handbook/"

// handbook serves the embedded pages; they never change.
type handbook struct {
	names []string          // in alphabetical order
	pages map[string]string // text by name
}

// newHandbook makes the handbook server, which speaks every revision that the SDK supports.
func newHandbook() (*sdk.Server, error) {
	h := &handbook{pages: make(map[string]string)}
	files, err := fs.Glob(handbookFiles, "handbook/*.md")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		body, err := handbookFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(path.Base(file), ".md")
		h.names = append(h.names, name)
		h.pages[name] = string(body)
	}
	server := sdk.NewServer(
		&sdk.Implementation{Name: "handbook", Title: "Handbook", Version: version},
		&sdk.ServerOptions{
			Instructions:      "Short pages about MCP and gateways. Everything here is read-only.",
			CompletionHandler: h.complete,
			Capabilities:      &sdk.ServerCapabilities{},
		})
	readOnly := &sdk.ToolAnnotations{ReadOnlyHint: true}
	sdk.AddTool(server, &sdk.Tool{
		Name: "search", Title: "Search the handbook", Annotations: readOnly,
		Description: "Finds the lines that contain the query, ignoring case, with the page that each is on.",
	}, h.search)
	sdk.AddTool(server, &sdk.Tool{
		Name: "page", Title: "Read a page", Annotations: readOnly,
		Description: "Returns a page of the handbook as Markdown.",
	}, h.page)
	for _, name := range h.names {
		server.AddResource(&sdk.Resource{
			Name: name, Title: h.title(name), URI: handbookURI + name + ".md",
			MIMEType: "text/markdown", Size: int64(len(h.pages[name])),
		}, h.resource)
	}
	server.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "page", Title: "A page", URITemplate: handbookURI + "{page}.md", MIMEType: "text/markdown",
	}, h.resource)
	server.AddPrompt(&sdk.Prompt{
		Name: "explain", Title: "Explain a topic",
		Description: "Asks for an explanation of a page for a given reader.",
		Arguments: []*sdk.PromptArgument{
			{Name: "page", Description: "the page", Required: true},
			{Name: "reader", Description: "who reads: newcomer, developer or operator"},
		},
	}, h.explain)
	return server, nil
}

// ServeStdio runs the handbook server on a pair of streams until in or the context ends.
// The program runs it when started with StdioCommand.
func ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	server, err := newHandbook()
	if err != nil {
		return err
	}
	return server.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

type handbookSearchInput struct {
	Query string `json:"query" jsonschema:"words to look for"`
}

type handbookLine struct {
	Page string `json:"page"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

type handbookSearchOutput struct {
	Lines []handbookLine `json:"lines"`
}

func (h *handbook) search(_ context.Context, _ *sdk.CallToolRequest, in handbookSearchInput) (*sdk.CallToolResult,
	handbookSearchOutput, error) {
	query := strings.ToLower(strings.TrimSpace(in.Query))
	if query == "" {
		return nil, handbookSearchOutput{}, fmt.Errorf("the query is empty")
	}
	found := []handbookLine{}
	for _, name := range h.names {
		number := 0
		for line := range strings.Lines(h.pages[name]) {
			number++
			if strings.Contains(strings.ToLower(line), query) {
				found = append(found, handbookLine{Page: name, Line: number, Text: strings.TrimSpace(line)})
			}
		}
	}
	return nil, handbookSearchOutput{Lines: found}, nil
}

type pageInput struct {
	Page string `json:"page" jsonschema:"errors, names, questions or revisions"`
}

func (h *handbook) page(_ context.Context, _ *sdk.CallToolRequest, in pageInput) (*sdk.CallToolResult, any, error) {
	body, ok := h.pages[in.Page]
	if !ok {
		return nil, nil, fmt.Errorf("there is no page %q: there are %s", in.Page, strings.Join(h.names, ", "))
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{
		Resource: &sdk.ResourceContents{URI: handbookURI + in.Page + ".md", MIMEType: "text/markdown", Text: body},
	}}}, nil, nil
}

func (h *handbook) resource(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	name, isOurs := strings.CutPrefix(req.Params.URI, handbookURI)
	body, ok := h.pages[strings.TrimSuffix(name, ".md")]
	if !isOurs || !ok {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	return text(req.Params.URI, body), nil
}

func (h *handbook) explain(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
	name, reader := req.Params.Arguments["page"], req.Params.Arguments["reader"]
	body, ok := h.pages[name]
	if !ok {
		return nil, fmt.Errorf("there is no page %q", name)
	}
	if reader == "" {
		reader = "newcomer"
	}
	return &sdk.GetPromptResult{
		Description: h.title(name),
		Messages: []*sdk.PromptMessage{
			{Role: "user", Content: &sdk.TextContent{Text: "Explain this page to a " + reader + "."}},
			{Role: "user", Content: &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{
				URI: handbookURI + name + ".md", MIMEType: "text/markdown", Text: body,
			}}},
		},
	}, nil
}

func (h *handbook) complete(_ context.Context, req *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	var values []string
	switch req.Params.Argument.Name {
	case "page":
		values = h.names
	case "reader":
		values = []string{"developer", "newcomer", "operator"}
	}
	return completion(values, req.Params.Argument.Value), nil
}

// title is a page's heading.
func (h *handbook) title(name string) string {
	first, _, _ := strings.Cut(h.pages[name], "\n")
	return strings.TrimPrefix(first, "# ")
}
