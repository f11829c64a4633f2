package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// The test binary, started with StdioCommand, is the stdio server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == StdioCommand {
		if err := ServeStdio(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	mcptest.VerifyMain(m)
}

func start(t *testing.T) *Demo {
	t.Helper()
	d, err := Start(t.Context(), Options{Executable: os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func connect(t *testing.T, transport sdk.Transport, revision string, opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts)
	session, err := client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func TestServersSpeakTheirRevision(t *testing.T) {
	d := start(t)
	for _, c := range []struct{ name, offered, want string }{
		{"notes", "2026-07-28", "2026-07-28"},
		{"ops", "2026-07-28", "2025-06-18"},
		{"ops", "2025-11-25", "2025-06-18"},
	} {
		t.Run(c.name+" offered "+c.offered, func(t *testing.T) {
			s := connect(t, &sdk.StreamableClientTransport{Endpoint: d.urls[c.name]}, c.offered, nil)
			if got := s.InitializeResult().ProtocolVersion; got != c.want {
				t.Errorf("negotiated %s, want %s", got, c.want)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	d := start(t)
	s := connect(t, &sdk.StreamableClientTransport{Endpoint: d.urls["notes"]}, "", nil)
	added := call(t, s, "add", map[string]any{"title": "Tests", "text": "are read more than written",
		"tags": []string{"design"}})
	if got := string(added); !strings.Contains(got, `"number":4`) {
		t.Errorf("the fourth note is %s", got)
	}
	found := call(t, s, "search", map[string]any{"query": "TESTS"})
	if !strings.Contains(string(found), "are read more") {
		t.Errorf("search found %s", found)
	}
	read, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "note://4"})
	if err != nil || !strings.HasPrefix(read.Contents[0].Text, "# Tests\n") {
		t.Errorf("read %v, %v", read, err)
	}
	if _, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "note://04"}); err == nil {
		t.Error("note://04 was read, though it is nobody's URI")
	}
	prompt, err := s.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "summarize",
		Arguments: map[string]string{"tag": "design"}})
	if err != nil || len(prompt.Messages) != 4 {
		t.Errorf("prompt %v, %v: want an instruction and three notes", prompt, err)
	}
	values, err := s.Complete(t.Context(), &sdk.CompleteParams{
		Ref:      &sdk.CompleteReference{Type: "ref/prompt", Name: "summarize"},
		Argument: sdk.CompleteParamsArgument{Name: "tag", Value: "g"},
	})
	if err != nil || len(values.Completion.Values) != 1 || values.Completion.Values[0] != "gateway" {
		t.Errorf("completion %v, %v", values, err)
	}
}

func TestOpsDeploys(t *testing.T) {
	d := start(t)
	progress := make(chan string, 10)
	updated := make(chan string, 1)
	answers := make(chan string, 1)
	s := connect(t, &sdk.StreamableClientTransport{Endpoint: d.urls["ops"]}, "", &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			progress <- r.Params.Message
		},
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			updated <- r.Params.URI
		},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: <-answers, Content: map[string]any{"confirm": true}}, nil
		},
	})
	if err := s.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "ops://services/web"}); err != nil {
		t.Fatal(err)
	}
	arguments := map[string]any{"service": "web", "version": "9", "environment": "production", "pace_ms": 0}
	params := &sdk.CallToolParams{Name: "deploy", Arguments: arguments}
	params.SetProgressToken("p")
	answers <- "accept"
	result, err := s.CallTool(t.Context(), params)
	if err != nil || result.IsError {
		t.Fatal(result, err)
	}
	for _, want := range []string{"pull image", "run migrations", "start canary", "shift traffic",
		"drain old version", "done"} {
		if got := <-progress; got != want {
			t.Errorf("progress %q, want %q", got, want)
		}
	}
	if got := <-updated; got != "ops://services/web" {
		t.Errorf("updated %q", got)
	}
	if got := string(call(t, s, "services", nil)); !strings.Contains(got, `"production":"9"`) {
		t.Errorf("services: %s", got)
	}
	answers <- "decline"
	result, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "deploy", Arguments: arguments})
	if err != nil || !result.IsError {
		t.Errorf("declined, and yet %v, %v", result, err)
	}
}

func TestHandbookOverStdio(t *testing.T) {
	s := connect(t, &sdk.CommandTransport{Command: exec.Command(os.Args[0], StdioCommand)}, "", nil)
	found := call(t, s, "search", map[string]any{"query": "elicitation/create"})
	if !strings.Contains(string(found), `"page":"questions"`) {
		t.Errorf("search found %s", found)
	}
	read, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "file:///handbook/names.md"})
	if err != nil || !strings.HasPrefix(read.Contents[0].Text, "# Names") {
		t.Errorf("read %v, %v", read, err)
	}
}

func TestServeStdioEndsWithItsContext(t *testing.T) {
	in, feed := io.Pipe()
	defer feed.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ServeStdio(ctx, in, io.Discard) }()
	if _, err := io.WriteString(feed, `{"jsonrpc":"2.0","method":"notifications/x"}`+"\n"); err != nil { // it reads
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("it ended before its context: %v", err)
	default:
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
	in.Close()
}

func TestConfigIsYAML(t *testing.T) {
	d, err := Start(t.Context(), Options{Executable: `/opt/a "b" ${x}/gatehouse`, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var config struct {
		Listen    string
		Upstreams []struct {
			Name, URL, Skills string
			Command           []string
		}
	}
	if err := yaml.Unmarshal(d.Config(), &config); err != nil {
		t.Fatalf("%v\n%s", err, d.Config())
	}
	if config.Listen != "127.0.0.1:0" || len(config.Upstreams) != 4 {
		t.Errorf("config %+v", config)
	}
	if got, want := config.Upstreams[2].Command, `/opt/a "b" $${x}/gatehouse`; len(got) != 2 || got[0] != want {
		t.Errorf("command %q, want %q first", got, want)
	}
	dir := config.Upstreams[3].Skills
	for _, file := range []string{"release/assets/badge.png", "incident/references/report.md"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
	d.Close()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the skills stay behind: %v", err)
	}
}

func TestGuide(t *testing.T) {
	d := start(t)
	var out bytes.Buffer
	if err := d.Guide(&out, "http://127.0.0.1:8080/mcp"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"http://127.0.0.1:8080/mcp", "notes__search", "ops__deploy", "handbook__page", "notes+note://{number}",
		"2026-07-28", "2025-11-25", "2025-06-18", "claude mcp add", ".vscode/mcp.json", ".cursor/mcp.json",
		"--stdio", "gatehouse connect", "inspector",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the guide does not mention %s", want)
		}
	}
	for line := range strings.Lines(out.String()) {
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 100 {
			t.Errorf("%d columns wide: %s", width, line)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestExecutableIsNeeded(t *testing.T) {
	if _, err := Start(t.Context(), Options{}); err == nil {
		t.Error("started without an executable")
	}
}

func call(t *testing.T, s *sdk.ClientSession, tool string, arguments map[string]any) []byte {
	t.Helper()
	result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil || result.IsError {
		t.Fatalf("%s: %v %v", tool, result, err)
	}
	return structured
}
