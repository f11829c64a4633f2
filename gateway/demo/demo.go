package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// StdioCommand is the hidden command of the program that runs ServeStdio.
const StdioCommand = "demo-handbook"

// Options say how the demo is started. Executable is needed, the rest is not.
type Options struct {
	// Executable is the program that, started with Args, runs ServeStdio on its
	// standard streams; usually os.Executable().
	Executable string
	// Args default to StdioCommand.
	Args []string
	// Listen is the address that Config tells the gateway, default 127.0.0.1:8080.
	Listen string
	// Log hears of failures of the demo servers; nil for none.
	Log *slog.Logger
}

// Demo is the running servers. Make one with Start.
type Demo struct {
	opts    Options
	http    []*http.Server
	servers []*sdk.Server
	offers  []offer
	urls    map[string]string // of the HTTP servers, by name

	serving sync.WaitGroup
	closing sync.Once
}

// Start starts the HTTP servers on loopback ports. The stdio server is left to the
// gateway that runs with Config. The context is for the start only.
func Start(ctx context.Context, opts Options) (*Demo, error) {
	if opts.Executable == "" {
		return nil, errors.New("demo: executable is empty")
	}
	if len(opts.Args) == 0 {
		opts.Args = []string{StdioCommand}
	}
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:8080"
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	d := &Demo{opts: opts, urls: make(map[string]string)}
	if err := d.start(ctx); err != nil {
		d.Close()
		return nil, fmt.Errorf("demo: %w", err)
	}
	return d, nil
}

func (d *Demo) start(ctx context.Context) error {
	notes := newNotes(wire.Stateless().Name)
	stateless := &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}
	if err := d.serve("notes", notes, stateless); err != nil {
		return err
	}
	ops := newOps(opsRevision().Name)
	if err := d.serve("ops", ops, &sdk.StreamableHTTPOptions{SessionTimeout: time.Hour}); err != nil {
		return err
	}
	handbook, err := newHandbook()
	if err != nil {
		return err
	}
	for _, each := range []struct {
		name, how string
		server    *sdk.Server
	}{
		{"notes", "HTTP, stateless " + wire.Stateless().Name, notes},
		{"ops", "HTTP, stateful " + opsRevision().Name, ops},
		{"handbook", "stdio, this program itself", handbook},
	} {
		o, err := ask(ctx, each.server)
		if err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
		o.Name, o.How = each.name, each.how
		d.offers = append(d.offers, o)
	}
	return nil
}

// opsRevision is the newest stateful revision but one: what most servers speak
// today, and the last one without priming events.
func opsRevision() *wire.Revision {
	newest := wire.AssumedStateful()
	for _, r := range wire.Revisions() {
		if r.Stateful && !r.Priming {
			newest = r
		}
	}
	return newest
}

func (d *Demo) serve(name string, server *sdk.Server, opts *sdk.StreamableHTTPOptions) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, opts))
	s := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(d.opts.Log.Handler(), slog.LevelWarn),
	}
	d.http = append(d.http, s)
	d.servers = append(d.servers, server)
	d.urls[name] = "http://" + listener.Addr().String() + "/mcp"
	d.serving.Go(func() {
		if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.opts.Log.Error("demo server stopped", "server", name, "error", err)
		}
	})
	return nil
}

// Close ends the servers with everything that is open on them and waits for their
// goroutines. It may be called twice.
func (d *Demo) Close() {
	d.closing.Do(func() {
		for _, s := range d.servers {
			for session := range s.Sessions() {
				session.Close()
			}
		}
		for _, s := range d.http {
			s.Close()
		}
	})
	d.serving.Wait()
}

// Config is the configuration, as YAML, of a gateway in front of the three servers.
func (d *Demo) Config() []byte {
	command := []string{quote(d.opts.Executable)}
	for _, arg := range d.opts.Args {
		command = append(command, quote(arg))
	}
	return fmt.Appendf(nil, `listen: %s
auth: {mode: none}
upstreams:
  - {name: notes, url: %s}
  - {name: ops, url: %s}
  - {name: handbook, command: [%s]}
`, quote(d.opts.Listen), quote(d.urls["notes"]), quote(d.urls["ops"]), strings.Join(command, ", "))
}

// quote makes a YAML double-quoted scalar, which a JSON string is. A path may hold
// "${", which the loader would expand.
func quote(s string) string {
	return string(mcp.String(strings.ReplaceAll(s, "${", "$${")))
}
