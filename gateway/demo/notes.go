package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// notes is the notebook of the stateless server. All clients share it, since a stateless server
// cannot distinguish them.
type notes struct {
	server *sdk.Server

	mu  sync.Mutex // guards all
	all []note     // in the order of their numbers; the number is the index plus one
}

type note struct {
	Number int      `json:"number" jsonschema:"the note's number; its resource is note://<number>"`
	Title  string   `json:"title"`
	Text   string   `json:"text"`
	Tags   []string `json:"tags"`
}

func (n note) uri() string { return fmt.Sprintf("note://%d", n.Number) }

func (n note) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n", n.Title, n.Text)
	if len(n.Tags) > 0 {
		fmt.Fprintf(&b, "\nTags: %s\n", strings.Join(n.Tags, ", "))
	}
	return b.String()
}

// newNotes makes the notes server, which speaks only the given revision.
func newNotes(revision string) *sdk.Server {
	n := &notes{}
	n.server = sdk.NewServer(
		&sdk.Implementation{Name: "notes", Title: "Notebook", Version: version},
		&sdk.ServerOptions{
			Instructions:              "A small notebook. Search before you add; a note's resource is note://<number>.",
			CompletionHandler:         n.complete,
			SupportedProtocolVersions: []string{revision},
			Capabilities:              &sdk.ServerCapabilities{},
		})
	readOnly := &sdk.ToolAnnotations{ReadOnlyHint: true}
	sdk.AddTool(n.server, &sdk.Tool{
		Name: "add", Title: "Add a note", Description: "Writes a new note and returns it with its number.",
	}, n.add)
	sdk.AddTool(n.server, &sdk.Tool{
		Name: "search", Title: "Search notes", Annotations: readOnly,
		Description: "Finds the notes whose title, text or tags contain the query, ignoring case. No query: all notes.",
	}, n.search)
	sdk.AddTool(n.server, &sdk.Tool{
		Name: "read", Title: "Read a note", Annotations: readOnly,
		Description: "Returns one note by its number.",
	}, n.read)
	n.server.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "note", Title: "A note", URITemplate: "note://{number}", MIMEType: "text/markdown",
		Description: "A note by its number.",
	}, n.resource)
	n.server.AddPrompt(&sdk.Prompt{
		Name: "summarize", Title: "Summarize notes",
		Description: "Asks for a summary of all notes with a tag.",
		Arguments: []*sdk.PromptArgument{
			{Name: "tag", Description: "the tag to look for", Required: true},
			{Name: "style", Description: "brief, bullets or report; default brief"},
		},
	}, n.summarize)

	for _, seed := range []note{
		{Title: "Why a gateway", Tags: []string{"gateway", "design"},
			Text: "One endpoint for every client; names, sessions and errors are sorted out once."},
		{Title: "Two eras of MCP", Tags: []string{"protocol", "design"},
			Text: "Stateful revisions have a session, the stateless one says everything in each request."},
		{Title: "Groceries", Tags: []string{"home"}, Text: "Coffee, oats, lemons."},
	} {
		n.put(seed)
	}
	return n.server
}

type searchInput struct {
	Query string `json:"query,omitempty" jsonschema:"words to look for; empty finds everything"`
}

type searchOutput struct {
	Notes []note `json:"notes"`
}

func (n *notes) search(_ context.Context, _ *sdk.CallToolRequest, in searchInput) (*sdk.CallToolResult,
	searchOutput, error) {
	found := n.find(in.Query)
	content := []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("Notes found: %d", len(found))}}
	for _, f := range found {
		content = append(content, &sdk.ResourceLink{URI: f.uri(), Name: f.Title, MIMEType: "text/markdown"})
	}
	return &sdk.CallToolResult{Content: content}, searchOutput{Notes: found}, nil
}

type addInput struct {
	Title string   `json:"title" jsonschema:"one line"`
	Text  string   `json:"text"`
	Tags  []string `json:"tags,omitempty"`
}

func (n *notes) add(_ context.Context, _ *sdk.CallToolRequest, in addInput) (*sdk.CallToolResult, note, error) {
	if strings.TrimSpace(in.Title) == "" {
		return nil, note{}, fmt.Errorf("the title is empty")
	}
	added, ok := n.put(note{Title: in.Title, Text: in.Text, Tags: in.Tags})
	if !ok {
		return nil, note{}, fmt.Errorf("the notebook is full: it holds %d notes", maxNotes)
	}
	return nil, added, nil
}

type readInput struct {
	Number int `json:"number" jsonschema:"the note's number"`
}

func (n *notes) read(_ context.Context, _ *sdk.CallToolRequest, in readInput) (*sdk.CallToolResult, note, error) {
	found, ok := n.get(in.Number)
	if !ok {
		return nil, note{}, fmt.Errorf("there is no note %d", in.Number)
	}
	return nil, found, nil
}

func (n *notes) resource(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	var number int
	if _, err := fmt.Sscanf(req.Params.URI, "note://%d", &number); err != nil {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	found, ok := n.get(number)
	if !ok || found.uri() != req.Params.URI {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	return text(req.Params.URI, found.markdown()), nil
}

func (n *notes) summarize(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
	tag, style := req.Params.Arguments["tag"], req.Params.Arguments["style"]
	if style == "" {
		style = "brief"
	}
	messages := []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{
		Text: fmt.Sprintf("Summarize these notes about %q. Style: %s.", tag, style),
	}}}
	for _, f := range n.find("") {
		if slices.Contains(f.Tags, tag) {
			messages = append(messages, &sdk.PromptMessage{Role: "user", Content: &sdk.EmbeddedResource{
				Resource: &sdk.ResourceContents{URI: f.uri(), MIMEType: "text/markdown", Text: f.markdown()},
			}})
		}
	}
	return &sdk.GetPromptResult{Description: "Summary of the notes tagged " + tag, Messages: messages}, nil
}

func (n *notes) complete(_ context.Context, req *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	var values []string
	switch req.Params.Argument.Name {
	case "style":
		values = []string{"brief", "bullets", "report"}
	case "tag":
		for _, f := range n.find("") {
			for _, tag := range f.Tags {
				if !slices.Contains(values, tag) {
					values = append(values, tag)
				}
			}
		}
	case "number":
		for _, f := range n.find("") {
			values = append(values, fmt.Sprint(f.Number))
		}
	}
	return completion(values, req.Params.Argument.Value), nil
}

// maxNotes bounds the notes that visitors can leave in the demo's memory.
const maxNotes = 1000

// put stores a note under the next number; ok is false if the notebook is full.
func (n *notes) put(added note) (_ note, ok bool) {
	n.mu.Lock()
	if len(n.all) == maxNotes {
		n.mu.Unlock()
		return note{}, false
	}
	added.Number = len(n.all) + 1
	added.Tags = append([]string{}, added.Tags...) // an empty list, not null
	n.all = append(n.all, added)
	n.mu.Unlock()
	n.server.AddResource(&sdk.Resource{ // this also tells listeners that the list changed
		Name: added.Title, URI: added.uri(), MIMEType: "text/markdown",
	}, n.resource)
	return added, true
}

func (n *notes) get(number int) (note, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number < 1 || number > len(n.all) {
		return note{}, false
	}
	return n.all[number-1], true
}

func (n *notes) find(query string) []note {
	query = strings.ToLower(query)
	n.mu.Lock()
	defer n.mu.Unlock()
	found := []note{}
	for _, candidate := range n.all {
		if strings.Contains(strings.ToLower(candidate.markdown()), query) {
			found = append(found, candidate)
		}
	}
	return found
}
