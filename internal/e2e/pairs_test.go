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

// forEachPair runs a test for a client of each era with a server of each era over
// each transport, through the shared gateway.
func forEachPair(t *testing.T, test func(t *testing.T, c *client, server string)) {
	url, _ := shared(t)
	for _, revision := range []string{statefulClient, stateless} {
		for _, p := range peers {
			t.Run(fmt.Sprintf("client %s, %s server over %s", revision, p.revision, p.transport), func(t *testing.T) {
				test(t, connect(t, url, revision), p.name)
			})
		}
	}
}

func TestListAndCall(t *testing.T) {
	forEachPair(t, func(t *testing.T, c *client, server string) {
		tools := listTools(t, c)
		for _, name := range []string{"confirm", "count", "echo", "fail", "links", "roots", "sample", "touch", "wait"} {
			if !slices.Contains(tools, server+"__"+name) {
				t.Errorf("%s__%s is not in the list %q", server, name, tools)
			}
		}
		result, err := c.CallTool(deadline(t), &sdk.CallToolParams{
			Name: server + "__echo", Arguments: map[string]any{"text": "grüße, 世界 \u2028 \"\\"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := textOf(t, result), "grüße, 世界 \u2028 \"\\"; got != want {
			t.Errorf("echo says %q, want %q", got, want)
		}
		structured, err := json.Marshal(result.StructuredContent)
		if want := `"length":`; err != nil || !strings.Contains(string(structured), want) {
			t.Errorf("structured content %s, %v: want %s in it", structured, err, want)
		}
		result, err = c.CallTool(deadline(t), &sdk.CallToolParams{Name: server + "__fail"})
		if err != nil || !result.IsError || textOf(t, result) != "the tool broke" {
			t.Errorf("P9/131: a tool that fails: %+v, %v", result, err)
		}
	})
}

func TestUnknownNames(t *testing.T) {
	forEachPair(t, func(t *testing.T, c *client, server string) {
		_, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: server + "__nothing"})
		wantCode(t, "an unknown tool", err, -32602)
		_, err = c.GetPrompt(deadline(t), &sdk.GetPromptParams{Name: server + "__nothing"})
		wantCode(t, "an unknown prompt", err, -32602)
		missing := int64(-32602)
		if c.revision != stateless {
			missing = -32002
		}
		for _, uri := range []string{server + "+test://item/none", "nobody+test://static", "test://static"} {
			_, err = c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: uri})
			wantCode(t, "P9/129 "+uri, err, missing)
		}
	})
}

func TestResources(t *testing.T) {
	forEachPair(t, func(t *testing.T, c *client, server string) {
		listed := map[string]bool{}
		for r, err := range c.Resources(deadline(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			listed[r.URI] = true
		}
		for uri, want := range peerResources {
			public := server + "+" + uri
			if !listed[public] {
				t.Errorf("P9/177 %s is not in the list %q", public, slices.Sorted(maps.Keys(listed)))
				continue
			}
			if server == "new-http" && uri == unicodeURI {
				continue // go-sdk v1.8.0 does not decode Mcp-Name; see TestP9_177_UnicodeNamesInHeaders
			}
			got, err := c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: public})
			if err != nil {
				t.Errorf("P9/177 %s: %v", public, err)
				continue
			}
			if got.Contents[0].Text != want || got.Contents[0].URI != public {
				t.Errorf("P9/177 %s: got %q at %s", public, got.Contents[0].Text, got.Contents[0].URI)
			}
		}
	})
}

func TestTemplates(t *testing.T) {
	forEachPair(t, func(t *testing.T, c *client, server string) {
		want := server + "+test://item/{id}"
		found := false
		for template, err := range c.ResourceTemplates(deadline(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			found = found || template.URITemplate == want
		}
		if !found {
			t.Fatalf("no template %s", want)
		}
		uri := strings.Replace(want, "{id}", "4 2", 1)
		got, err := c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: strings.Replace(want, "{id}", "42", 1)})
		if err != nil || got.Contents[0].Text != "item 42" {
			t.Errorf("P9/179 %s: %+v, %v", uri, got, err)
		}
		values, err := c.Complete(deadline(t), &sdk.CompleteParams{
			Ref:      &sdk.CompleteReference{Type: "ref/resource", URI: want},
			Argument: sdk.CompleteParamsArgument{Name: "id", Value: "4"},
		})
		if err != nil || values.Completion.Values[0] != "test://item/{id} id 4!" {
			t.Errorf("P9/179 completion: %+v, %v", values, err)
		}
	})
}

func TestPrompts(t *testing.T) {
	forEachPair(t, func(t *testing.T, c *client, server string) {
		var names []string
		for prompt, err := range c.Prompts(deadline(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, prompt.Name)
		}
		if !slices.Contains(names, server+"__greet") {
			t.Errorf("no %s__greet in %q", server, names)
		}
		got, err := c.GetPrompt(deadline(t), &sdk.GetPromptParams{
			Name: server + "__greet", Arguments: map[string]string{"name": "Ada"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if text := got.Messages[0].Content.(*sdk.TextContent).Text; text != "Hello Ada" {
			t.Errorf("the prompt says %q", text)
		}
		embedded := got.Messages[1].Content.(*sdk.EmbeddedResource).Resource.URI
		if want := server + "+test://static"; embedded != want {
			t.Errorf("P9/178 embedded in a prompt: %s, want %s", embedded, want)
		}
		values, err := c.Complete(deadline(t), &sdk.CompleteParams{
			Ref:      &sdk.CompleteReference{Type: "ref/prompt", Name: server + "__greet"},
			Argument: sdk.CompleteParamsArgument{Name: "name", Value: "A"},
		})
		if err != nil || values.Completion.Values[0] != "greet name A!" {
			t.Errorf("completion: %+v, %v", values, err)
		}
	})
}

func TestP9_178_LinksInResultsAreReadable(t *testing.T) {
	forEachPair(t, func(t *testing.T, c *client, server string) {
		result, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: server + "__links"})
		if err != nil {
			t.Fatal(err)
		}
		uris := []string{
			result.Content[0].(*sdk.ResourceLink).URI,
			result.Content[1].(*sdk.EmbeddedResource).Resource.URI,
		}
		for i, want := range []string{server + "+test://static", server + "+urn:isbn:0451450523"} {
			if uris[i] != want {
				t.Errorf("the result points at %s, want %s", uris[i], want)
			}
			if _, err := c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: uris[i]}); err != nil {
				t.Errorf("%s: %v", uris[i], err)
			}
		}
		if text := result.Content[2].(*sdk.TextContent).Text; text != "test://static is only mentioned here" {
			t.Errorf("text was changed to %q", text)
		}
	})
}

func TestP9_141_ProgressWithTheClientsToken(t *testing.T) {
	forEachPair(t, func(t *testing.T, c *client, server string) {
		for _, token := range []any{"a token", 17} {
			params := &sdk.CallToolParams{Name: server + "__count", Arguments: map[string]any{"to": 3}}
			params.SetProgressToken(token)
			if result, err := c.CallTool(deadline(t), params); err != nil || result.IsError {
				t.Fatal(result, err)
			}
			for i := 1; i <= 3; i++ {
				p := receive(t, "progress", c.progress)
				want := fmt.Sprint("at ", i)
				if fmt.Sprint(p.ProgressToken) != fmt.Sprint(token) || p.Progress != float64(i) || p.Total != 3 || p.Message != want {
					t.Errorf("progress %d is %+v", i, p)
				}
				if _, isText := p.ProgressToken.(string); isText != (token == "a token") {
					t.Errorf("the token came back as a %T", p.ProgressToken)
				}
			}
		}
		if got := c.text(t, server+"__count", map[string]any{"to": 3}); got != "counted to 3" {
			t.Error(got)
		}
		if len(c.progress) > 0 {
			t.Error("P9/142 progress came without a token")
		}
	})
}

func TestLogMessagesByLevel(t *testing.T) {
	forEachPair(t, func(t *testing.T, c *client, server string) {
		call := func(level sdk.LoggingLevel) {
			t.Helper()
			params := &sdk.CallToolParams{Name: server + "__count", Arguments: map[string]any{"to": 2}}
			if c.revision == stateless {
				params.Meta = sdk.Meta{sdk.MetaKeyLogLevel: string(level)}
			} else if err := c.SetLoggingLevel(deadline(t), &sdk.SetLoggingLevelParams{Level: level}); err != nil {
				t.Fatal(err)
			}
			if result, err := c.CallTool(deadline(t), params); err != nil || result.IsError {
				t.Fatal(result, err)
			}
		}
		call("warning")
		for i := 1; i <= 2; i++ {
			got := receive(t, "a log message", c.logs)
			if got.Level != "warning" || fmt.Sprint(got.Data) != fmt.Sprint(i) || got.Logger != server+"/counter" {
				t.Errorf("P9/137 log message %+v", got)
			}
		}
		call("error")
		if len(c.logs) > 0 {
			t.Errorf("P9/137 below the level: %+v", <-c.logs)
		}
	})
}

func TestCancelReachesTheServer(t *testing.T) {
	_, e := shared(t)
	forEachPair(t, func(t *testing.T, c *client, server string) {
		key := rand.Text()
		ctx, cancel := context.WithCancel(deadline(t))
		failed := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: server + "__wait", Arguments: map[string]any{"key": key}})
			failed <- err
		}()
		e.await(t, "started "+key)
		cancel()
		if err := receive(t, "the end of the call", failed); err == nil {
			t.Error("a cancelled call succeeded")
		}
		e.await(t, "cancelled "+key)
		if got := c.text(t, server+"__echo", map[string]any{"text": "still here"}); got != "still here" {
			t.Errorf("after the cancellation: %q", got)
		}
	})
}

func TestResourceUpdates(t *testing.T) {
	forEachPair(t, func(t *testing.T, c *client, server string) {
		uri := server + "+test://static"
		if err := c.Subscribe(deadline(t), &sdk.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
		c.text(t, server+"__touch", map[string]any{"uri": "test://static"})
		if got := receive(t, "an update", c.updated); got != uri {
			t.Errorf("P9/178 updated %s, want %s", got, uri)
		}
		if err := c.Unsubscribe(deadline(t), &sdk.UnsubscribeParams{URI: uri}); err != nil {
			t.Error(err)
		}
	})
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
