package demo_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/demo"
)

// patience bounds every wait; it is reached only if something is broken.
const patience = time.Minute

// startGateway runs the demo with its gateway, as the command does.
func startGateway(t *testing.T) (url string, d *demo.Demo) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	d, err = demo.Start(t.Context(), demo.Options{
		Executable: os.Args[0], Listen: listener.Addr().String(), SignIn: true, Offline: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	file, err := d.WriteConfig()
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{ConfigFile: file, Listener: listener, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := g.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return g.URL(), d
}

// client is a user's client that gives the same answer to every question.
type client struct {
	*sdk.ClientSession
	asked chan string
}

func signedIn(t *testing.T, d *demo.Demo, url, revision, user, answer string) client {
	t.Helper()
	return connected(t, url, revision, d.Key(user), answer)
}

// connected has a token or a key.
func connected(t *testing.T, url, revision, token, answer string) client {
	t.Helper()
	c := client{asked: make(chan string, 10)}
	impl := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			c.asked <- r.Params.Message
			return &sdk.ElicitResult{Action: answer, Content: map[string]any{"approve": true}}, nil
		},
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	var err error
	c.ClientSession, err = impl.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: withToken{transport, token}},
	}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// names returns the names of the tools.
func (c client) names(t *testing.T) (tools []string) {
	t.Helper()
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool.Name)
	}
	slices.Sort(tools)
	return tools
}

// withToken adds a token to each request.
type withToken struct {
	next  http.RoundTripper
	token string
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.next.RoundTrip(r)
}

// TestRights checks which rights the demo's policy gives to whom, for clients of both eras.
func TestRights(t *testing.T) {
	url, d := startGateway(t)
	reads := []string{"handbook__page", "handbook__search", "notes__read", "notes__search"}
	engineers := append([]string{"notes__add", "ops__deploy", "ops__services"}, reads...)
	slices.Sort(engineers)
	deploy := func(service string) *sdk.CallToolParams {
		return &sdk.CallToolParams{Name: "ops__deploy", Arguments: map[string]any{
			"service": service, "version": "9", "environment": "staging", "pace_ms": 0,
		}}
	}
	note := &sdk.CallToolParams{Name: "notes__add", Arguments: map[string]any{"title": "From a test", "text": "text"}}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			alice, bob := signedIn(t, d, url, revision, "alice", "accept"), signedIn(t, d, url, revision, "bob", "accept")
			wants := map[string][]string{"alice": engineers, "bob": reads}
			for user, c := range map[string]client{"alice": alice, "bob": bob} {
				var templates []string
				if tools := c.names(t); !slices.Equal(tools, wants[user]) {
					t.Errorf("%s has %v, want %v", user, tools, wants[user])
				}
				for template, err := range c.ResourceTemplates(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					templates = append(templates, template.URITemplate)
				}
				if got := slices.Contains(templates, "ops+ops://services/{name}"); got != (user == "alice") {
					t.Errorf("%s has %v", user, templates)
				}
			}

			if result, err := alice.CallTool(t.Context(), deploy("web")); err != nil || result.IsError {
				t.Errorf("Alice deploys: %+v, %v", result, err)
			}
			frozen := refusal(t, alice, deploy("billing"))
			missing := refusal(t, bob, deploy("web"))
			if !strings.Contains(frozen, "Not allowed with these arguments: ops__deploy") ||
				!strings.Contains(missing, "Unknown tool: ops__deploy") {
				t.Errorf("what is frozen: %q; what is not there: %q", frozen, missing)
			}
			if _, err := bob.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "ops+ops://services"}); err == nil {
				t.Error("Bob reads the services")
			}

			if result, err := alice.CallTool(t.Context(), note); err != nil || result.IsError {
				t.Errorf("Alice writes a note: %+v, %v", result, err)
			}
			select {
			case question := <-alice.asked:
				if !strings.Contains(question, "tool: add") || !strings.Contains(question, "From a test") {
					t.Errorf("asked %q", question)
				}
			default:
				t.Error("nobody was asked")
			}
			if got := refusal(t, bob, note); !strings.Contains(got, "Unknown tool") || len(bob.asked) > 0 {
				t.Errorf("Bob writes a note: %s", got)
			}
			careful := signedIn(t, d, url, revision, "alice", "decline")
			if result, err := careful.CallTool(t.Context(), note); err == nil && !result.IsError {
				t.Errorf("a note was written against her will: %+v", result)
			}
		})
	}
}

// refusal returns how a call is refused.
func refusal(t *testing.T, c client, call *sdk.CallToolParams) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), call)
	if err == nil {
		t.Fatalf("%s was not refused: %+v", call.Name, result)
	}
	return err.Error()
}
