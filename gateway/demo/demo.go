package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// StdioCommand is the hidden command of the program that runs ServeStdio.
const StdioCommand = "demo-handbook"

// Options configure the demo. Only Executable is required.
type Options struct {
	// Executable is the program that, started with Args, runs ServeStdio on its standard
	// streams; usually os.Executable().
	Executable string
	// Args default to StdioCommand.
	Args []string
	// Command is the name of the program in the texts, default gatehouse.
	Command string
	// Bold makes the welcome text use bold type.
	Bold bool
	// Listen is the gateway's address in Config, default 127.0.0.1:8080.
	Listen string
	// Admin is the address of the console in Config, on this machine; "" for no console.
	Admin string
	// SignIn makes everyone sign in at the gateway's own authorization server, and gives users
	// different rights. A page of users stands in for the identity provider behind it. Tokens are
	// for one URL, so Listen must then be a loopback IP address with its port.
	SignIn bool
	// Offline stops the gateway from fetching clients' metadata documents; such clients have
	// to register instead.
	Offline bool
	// Progressive lists tools in short; they are described in full when a model asks.
	Progressive bool
	// Log receives failures of the demo servers; may be nil.
	Log *slog.Logger
}

// Demo holds the running servers. Start makes one.
type Demo struct {
	opts      Options
	listeners []net.Listener
	http      []*http.Server
	servers   []*sdk.Server
	offers    []offer
	urls      map[string]string // of the HTTP servers, by name
	signIn    *signIn           // nil without
	config    []byte            // of the gateway
	dir       string            // of the files, "" without any
	file      string            // of the configuration, "" before it is written

	serving sync.WaitGroup
	closing sync.Once
}

// Start starts the HTTP servers on loopback ports. The gateway that runs with Config starts
// the stdio server. The context applies only to the start.
func Start(ctx context.Context, opts Options) (*Demo, error) {
	if opts.Executable == "" {
		return nil, errors.New("demo: executable is empty")
	}
	if len(opts.Args) == 0 {
		opts.Args = []string{StdioCommand}
	}
	if opts.Command == "" {
		opts.Command = "gatehouse"
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
	notesListener, err := d.listen("notes")
	if err != nil {
		return err
	}
	opsListener, err := d.listen("ops")
	if err != nil {
		return err
	}
	protect := func(h http.Handler) http.Handler { return h }
	if d.opts.SignIn {
		if err := d.startSignIn(); err != nil {
			return err
		}
		protect = d.signIn.protect
	}
	notes, ops := newNotes(wire.Stateless().Name), newOps(opsRevision().Name)
	d.serve("notes", notesListener,
		d.handler(notes, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))
	d.serve("ops", opsListener, protect(d.handler(ops, &sdk.StreamableHTTPOptions{SessionTimeout: time.Hour})))
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
	d.config, err = d.newConfig()
	return err
}

// opsRevision returns the newest stateful revision but one: what most servers speak today,
// and the last revision without priming events.
func opsRevision() *wire.Revision {
	newest := wire.AssumedStateful()
	for _, r := range wire.Revisions() {
		if r.Stateful && !r.Priming {
			newest = r
		}
	}
	return newest
}

// listen listens on a free loopback port for the server with this name.
func (d *Demo) listen(name string) (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.listeners = append(d.listeners, listener)
	d.urls[name] = "http://" + listener.Addr().String() + "/mcp"
	return listener, nil
}

func (d *Demo) handler(server *sdk.Server, opts *sdk.StreamableHTTPOptions) http.Handler {
	d.servers = append(d.servers, server)
	mux := http.NewServeMux()
	mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, opts))
	return mux
}

func (d *Demo) serve(name string, listener net.Listener, handler http.Handler) {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(d.opts.Log.Handler(), slog.LevelWarn),
	}
	d.http = append(d.http, s)
	d.serving.Go(func() {
		if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.opts.Log.Error("demo server stopped", "server", name, "error", err)
		}
	})
}

// Close ends the servers and all their connections, waits for their goroutines and removes
// the files. It may be called twice.
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
		for _, l := range d.listeners { // those without a server yet, if the start failed
			l.Close()
		}
		if d.dir != "" {
			if err := os.RemoveAll(d.dir); err != nil {
				d.opts.Log.Warn("demo: files stay behind", "error", err)
			}
		}
	})
	d.serving.Wait()
}
