package e2e

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/demo"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// The revisions that represent their eras, of clients and of servers.
const (
	stateless      = "2026-07-28"
	statefulClient = "2025-11-25"
	statefulServer = "2025-06-18"
)

// stdioCommand makes the test binary a stdio peer: stdioCommand REVISION EVENTS.
// recordedCommand makes it one that records its input: recordedCommand REVISION FILE.
// linesCommand makes it a scripted server: linesCommand ADDRESS. faultyCommand does the
// same, with the fault that a file names: faultyCommand ADDRESS FILE.
const (
	stdioCommand    = "stdio-peer"
	recordedCommand = "recorded-stdio-peer"
	linesCommand    = "lines-peer"
	faultyCommand   = "faulty-peer"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case stdioCommand:
			// The gateway ends this process by closing its standard input, and go-sdk
			// returns that as an error.
			_ = newPeer(os.Args[2], remote(os.Args[3])).Run(context.Background(), &sdk.StdioTransport{})
			os.Exit(0)
		case recordedCommand:
			serveRecorded(os.Args[2], os.Args[3])
			os.Exit(0)
		case linesCommand:
			_ = mcptest.Carry(os.Args[2], os.Stdin, os.Stdout) // one end always closes in the end
			os.Exit(0)
		case faultyCommand:
			_ = serveFaulty(os.Args[2], os.Args[3]) // as above
			os.Exit(0)
		case fewFilesCommand:
			if err := serveWithFewFiles(os.Args[2]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case demo.StdioCommand:
			_ = demo.ServeStdio(context.Background(), os.Stdin, os.Stdout)
			os.Exit(0)
		}
	}
	atOnce(6)
	code := m.Run()
	if everything.stop != nil {
		everything.stop()
	}
	if code == 0 {
		if err := mcptest.Leaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// atOnce lets so many parallel tests run at the same time, unless -parallel says otherwise:
// they wait more than they compute.
func atOnce(tests int) {
	flag.Parse()
	if !given("test.parallel") {
		_ = flag.Set("test.parallel", strconv.Itoa(max(tests, runtime.GOMAXPROCS(0)))) // it is a number
	}
}

// given reports whether the command line sets a flag.
func given(name string) (yes bool) {
	flag.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
	return yes
}

// everything is the gateway that tests share if they change nothing: peers of each era over
// each transport that they have.
var everything struct {
	once   sync.Once
	stop   func()
	err    error
	url    string
	events *events
}

// peers are the upstreams of the shared gateway.
var peers = []struct{ name, revision, transport string }{
	{"old-http", statefulServer, "http"},
	{"new-http", stateless, "http"},
	{"old-stdio", statefulServer, "stdio"},
	{"new-stdio", stateless, "stdio"},
	{"old-sse", statefulServer, "HTTP+SSE"},
}

// shared returns the endpoint of the shared gateway and the events of its peers.
func shared(t *testing.T) (url string, e *events) {
	t.Helper()
	everything.once.Do(func() { everything.err = startEverything() })
	if everything.err != nil {
		t.Fatal(everything.err)
	}
	return everything.url, everything.events
}

func startEverything() error {
	e := newEvents()
	everything.events = e
	var stops []func()
	everything.stop = func() {
		for i := len(stops) - 1; i >= 0; i-- {
			stops[i]()
		}
	}
	stops = append(stops, e.server.Close)
	var upstreams []upstream.Config
	for _, p := range peers {
		if p.transport == "stdio" {
			upstreams = append(upstreams, upstream.Config{
				Name: p.name, Command: []string{os.Args[0], stdioCommand, p.revision, e.server.URL},
			})
			continue
		}
		serve := serve
		if p.transport == "HTTP+SSE" { // the gateway finds out
			serve = serveSSE
		}
		url, stop := serve(newPeer(p.revision, e.happened), p.revision == stateless)
		stops = append(stops, stop)
		upstreams = append(upstreams, upstream.Config{Name: p.name, URL: url})
	}
	g, stop, err := run(gateway.Config{Upstreams: upstreams})
	if err != nil {
		return err
	}
	stops = append(stops, stop)
	everything.url = g.URL()
	return nil
}

// run starts a gateway on a free port and waits until it knows its upstreams.
func run(cfg gateway.Config) (g *gateway.Gateway, stop func(), err error) {
	if g, stop, err = launch(cfg); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := g.WaitReady(ctx); err != nil {
		stop()
		return nil, nil, fmt.Errorf("the gateway is not ready: %w", err)
	}
	return g, stop, nil
}

// launch starts a gateway on a free port.
func launch(cfg gateway.Config) (g *gateway.Gateway, stop func(), err error) {
	cfg.Listen = "127.0.0.1:0"
	g, err = gateway.New(gateway.Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		return nil, nil, err
	}
	g.Start()
	return g, func() {
		// Calls whose questions nobody answers any more are cut off.
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the gateway:", err)
		}
	}, nil
}

// start is run for one test. It returns the endpoint.
func start(t *testing.T, cfg gateway.Config) string {
	t.Helper()
	g, stop, err := run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return g.URL()
}
