package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

//lint:file-ignore SA1019 what the newest revision deprecates still has to pass through

// These are the scenarios of the matrix with go-sdk at both ends.

func tryCalls(t *testing.T, p *pair) {
	tools := listTools(t, p.sdk)
	for _, name := range []string{"confirm", "count", "echo", "fail", "links", "roots", "sample", "touch", "wait"} {
		if !slices.Contains(tools, p.peer+"__"+name) {
			t.Errorf("%s__%s is not in the list %q", p.peer, name, tools)
		}
	}
	result, err := p.sdk.CallTool(deadline(t), &sdk.CallToolParams{
		Name: p.peer + "__echo", Arguments: map[string]any{"text": "grüße, 世界 \u2028 \"\\"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := textOf(t, result), "grüße, 世界 \u2028 \"\\"; got != want {
		t.Errorf("echo says %q, want %q", got, want)
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil || strings.Contains(string(structured), `"length":`) != since(p.client, "2025-06-18") {
		t.Errorf("structured content %s, %v", structured, err)
	}
	result, err = p.sdk.CallTool(deadline(t), &sdk.CallToolParams{Name: p.peer + "__fail"})
	if err != nil || !result.IsError || textOf(t, result) != "the tool broke" {
		t.Errorf("a tool that fails: %+v, %v", result, err)
	}

	_, err = p.sdk.CallTool(deadline(t), &sdk.CallToolParams{Name: p.peer + "__nothing"})
	wantCode(t, "an unknown tool", err, -32602)
	_, err = p.sdk.GetPrompt(deadline(t), &sdk.GetPromptParams{Name: p.peer + "__nothing"})
	wantCode(t, "an unknown prompt", err, -32602)
	missing := int64(-32602)
	if p.client.Stateful {
		missing = -32002
	}
	for _, uri := range []string{p.peer + "+test://item/none", "nobody+test://static", "test://static"} {
		_, err = p.sdk.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: uri})
		wantCode(t, uri, err, missing)
	}
}

func tryResources(t *testing.T, p *pair) {
	listed := map[string]bool{}
	for r, err := range p.sdk.Resources(deadline(t), nil) {
		if err != nil {
			t.Fatal(err)
		}
		listed[r.URI] = true
	}
	for uri, want := range peerResources {
		public := p.peer + "+" + uri
		if !listed[public] {
			t.Errorf("%s is not in the list %q", public, slices.Sorted(maps.Keys(listed)))
			continue
		}
		if !p.server.Stateful && p.over == overHTTP && uri == unicodeURI {
			continue // go-sdk v1.8.0 does not decode Mcp-Name; see TestUnicodeNamesInHeaders
		}
		got, err := p.sdk.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: public})
		if err != nil {
			t.Errorf("%s: %v", public, err)
			continue
		}
		if got.Contents[0].Text != want || got.Contents[0].URI != public {
			t.Errorf("%s: got %q at %s", public, got.Contents[0].Text, got.Contents[0].URI)
		}
	}

	want := p.peer + "+test://item/{id}"
	found := false
	for template, err := range p.sdk.ResourceTemplates(deadline(t), nil) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || template.URITemplate == want
	}
	if !found {
		t.Fatalf("no template %s", want)
	}
	uri := strings.Replace(want, "{id}", "42", 1)
	got, err := p.sdk.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: uri})
	if err != nil || got.Contents[0].Text != "item 42" {
		t.Errorf("%s: %+v, %v", uri, got, err)
	}
	values, err := p.sdk.Complete(deadline(t), &sdk.CompleteParams{
		Ref:      &sdk.CompleteReference{Type: "ref/resource", URI: want},
		Argument: sdk.CompleteParamsArgument{Name: "id", Value: "4"},
	})
	if err != nil || values.Completion.Values[0] != "test://item/{id} id 4!" {
		t.Errorf("completion: %+v, %v", values, err)
	}
}

func tryPrompts(t *testing.T, p *pair) {
	var names []string
	for prompt, err := range p.sdk.Prompts(deadline(t), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, prompt.Name)
	}
	if !slices.Contains(names, p.peer+"__greet") {
		t.Errorf("no %s__greet in %q", p.peer, names)
	}
	got, err := p.sdk.GetPrompt(deadline(t), &sdk.GetPromptParams{
		Name: p.peer + "__greet", Arguments: map[string]string{"name": "Ada"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Messages[0].Content.(*sdk.TextContent).Text; text != "Hello Ada" {
		t.Errorf("the prompt says %q", text)
	}
	embedded := got.Messages[1].Content.(*sdk.EmbeddedResource).Resource.URI
	if want := p.peer + "+test://static"; embedded != want {
		t.Errorf("embedded in a prompt: %s, want %s", embedded, want)
	}
	values, err := p.sdk.Complete(deadline(t), &sdk.CompleteParams{
		Ref:      &sdk.CompleteReference{Type: "ref/prompt", Name: p.peer + "__greet"},
		Argument: sdk.CompleteParamsArgument{Name: "name", Value: "A"},
	})
	if err != nil || values.Completion.Values[0] != "greet name A!" {
		t.Errorf("completion: %+v, %v", values, err)
	}
}

func tryLinks(t *testing.T, p *pair) {
	result, err := p.sdk.CallTool(deadline(t), &sdk.CallToolParams{Name: p.peer + "__links"})
	if err != nil {
		t.Fatal(err)
	}
	uris := []string{p.peer + "+test://static", p.peer + "+urn:isbn:0451450523"}
	var got []string
	if since(p.client, "2025-06-18") {
		got = append(got, result.Content[0].(*sdk.ResourceLink).URI)
	} else { // there are no links; a text describes it
		got = append(got, strings.TrimSuffix(strings.TrimPrefix(textOf(t, result), "Resource: static ("), ")"))
	}
	got = append(got, result.Content[1].(*sdk.EmbeddedResource).Resource.URI)
	if !slices.Equal(got, uris) {
		t.Errorf("the result points at %q, want %q", got, uris)
	}
	for _, uri := range uris {
		if _, err := p.sdk.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: uri}); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if text := result.Content[2].(*sdk.TextContent).Text; text != "test://static is only mentioned here" {
		t.Errorf("text was changed to %q", text)
	}
}

func tryProgress(t *testing.T, p *pair) {
	for _, token := range []any{"a token", 17} {
		params := &sdk.CallToolParams{Name: p.peer + "__count", Arguments: map[string]any{"to": 3}}
		params.SetProgressToken(token)
		if result, err := p.sdk.CallTool(deadline(t), params); err != nil || result.IsError {
			t.Fatal(result, err)
		}
		for i := 1; i <= 3; i++ {
			got, want := receive(t, "progress", p.sdk.progress), fmt.Sprint("at ", i)
			if !since(p.client, "2025-03-26") {
				want = ""
			}
			if fmt.Sprint(got.ProgressToken) != fmt.Sprint(token) || got.Progress != float64(i) || got.Total != 3 ||
				got.Message != want {
				t.Errorf("progress %d is %+v", i, got)
			}
			if _, isText := got.ProgressToken.(string); isText != (token == "a token") {
				t.Errorf("the token came back as a %T", got.ProgressToken)
			}
		}
	}
	if got := p.sdk.text(t, p.peer+"__count", map[string]any{"to": 3}); got != "counted to 3" {
		t.Error(got)
	}
	if len(p.sdk.progress) > 0 {
		t.Error("progress came without a token")
	}
}

func tryLogs(t *testing.T, p *pair) {
	call := func(level sdk.LoggingLevel) {
		t.Helper()
		params := &sdk.CallToolParams{Name: p.peer + "__count", Arguments: map[string]any{"to": 2}}
		if !p.client.Stateful {
			params.Meta = sdk.Meta{sdk.MetaKeyLogLevel: string(level)}
		} else if err := p.sdk.SetLoggingLevel(deadline(t), &sdk.SetLoggingLevelParams{Level: level}); err != nil {
			t.Fatal(err)
		}
		params.SetProgressToken("logs")
		if result, err := p.sdk.CallTool(deadline(t), params); err != nil || result.IsError {
			t.Fatal(result, err)
		}
		for range 2 { // then the messages before it were heard, too
			receive(t, "progress", p.sdk.progress)
		}
	}
	if p.nameless() {
		if call("debug"); len(p.sdk.logs) > 0 {
			t.Errorf("a log message of nobody's: %+v", <-p.sdk.logs)
		}
		return
	}
	call("emergency")         // at which nothing is logged
	for len(p.sdk.logs) > 0 { // of earlier calls, for which the client had set no level
		<-p.sdk.logs
	}
	call("warning")
	for i := 1; i <= 2; i++ {
		got := receive(t, "a log message", p.sdk.logs)
		if got.Level != "warning" || fmt.Sprint(got.Data) != fmt.Sprint(i) || got.Logger != p.peer+"/counter" {
			t.Errorf("log message %+v", got)
		}
	}
	call("error")
	if len(p.sdk.logs) > 0 {
		t.Errorf("below the level: %+v", <-p.sdk.logs)
	}
}

func tryCancel(t *testing.T, p *pair) {
	key := rand.Text()
	ctx, cancel := context.WithCancel(deadline(t))
	failed := make(chan error, 1)
	go func() {
		_, err := p.sdk.CallTool(ctx, &sdk.CallToolParams{Name: p.peer + "__wait", Arguments: map[string]any{"key": key}})
		failed <- err
	}()
	p.events.await(t, "started "+key)
	cancel()
	if err := receive(t, "the end of the call", failed); err == nil {
		t.Error("a cancelled call succeeded")
	}
	p.events.await(t, "cancelled "+key)
	if got := p.sdk.text(t, p.peer+"__echo", map[string]any{"text": "still here"}); got != "still here" {
		t.Errorf("after the cancellation: %q", got)
	}
}

func tryElicitation(t *testing.T, p *pair) {
	if forms, _ := canElicit(p.client.Name); forms {
		// go-sdk servers ask every client that declares the capability, even in revisions
		// without elicitation.
		if got, want := p.sdk.text(t, p.peer+"__confirm", nil), "accept because it is time"; got != want {
			t.Errorf("elicitation: %q, want %q", got, want)
		}
		if got := receive(t, "the question", p.sdk.asked); unvoiced(got) != "Really?" {
			t.Errorf("the client was asked %q", got)
		}
		return
	}
	// A client is not asked what its revision does not know, whatever it declares.
	result, err := p.sdk.CallTool(deadline(t), &sdk.CallToolParams{Name: p.peer + "__confirm"})
	if err == nil && !result.IsError || len(p.sdk.asked) > 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

func trySampling(t *testing.T, p *pair) {
	if got, want := p.sdk.text(t, p.peer+"__sample", nil), "parrot: hello"; got != want {
		t.Errorf("sampling: %q, want %q", got, want)
	}
}

func tryRoots(t *testing.T, p *pair) {
	if got, want := p.sdk.text(t, p.peer+"__roots", nil), "file:///work"; got != want {
		t.Errorf("roots: %q, want %q", got, want)
	}
}

func tryUpdates(t *testing.T, p *pair) {
	uri := p.peer + "+test://static"
	if err := p.sdk.Subscribe(deadline(t), &sdk.SubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	p.sdk.text(t, p.peer+"__touch", map[string]any{"uri": "test://static"})
	if got := receive(t, "an update", p.sdk.updated); got != uri {
		t.Errorf("updated %s, want %s", got, uri)
	}
	if err := p.sdk.Unsubscribe(deadline(t), &sdk.UnsubscribeParams{URI: uri}); err != nil {
		t.Error(err)
	}
}

func listTools(t *testing.T, c *client) []string {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(deadline(t), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func wantCode(t *testing.T, what string, err error, code int64) {
	t.Helper()
	var got *jsonrpc.Error
	if !errors.As(err, &got) || got.Code != code {
		t.Errorf("%s: %v, want code %d", what, err, code)
	}
}
