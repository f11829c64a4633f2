package demo

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// visitEvery is the approximate time between two calls of a visitor.
	visitEvery = 4 * time.Second
	visitLimit = 30 * time.Second // of a call
	// callsOfSession is the number of calls in a session.
	callsOfSession = 20
)

// visitor is a client that calls something now and then, so that the console has something to show. The
// welcome text does not name its user, and the calls change nothing of what it shows.
type visitor struct {
	user   user
	client sdk.Implementation
	calls  []sdk.CallToolParams // in turn
}

// visitors make calls that work, that fail, that policy refuses, and of tools that do not exist.
var visitors = []visitor{
	{
		user:   user{Subject: "dora", Groups: []string{"engineering"}},
		client: sdk.Implementation{Name: "demo-desktop", Version: "1.4.0"},
		calls: []sdk.CallToolParams{
			{Name: "ops__services"},
			{Name: "notes__search", Arguments: map[string]any{"query": "release"}},
			{Name: "ops__deploy", Arguments: map[string]any{
				"service": "search", "version": "0.9.8", "environment": "staging",
			}},
			// Frozen.
			{Name: "ops__deploy", Arguments: map[string]any{
				"service": "billing", "version": "2.5.0", "environment": "staging",
			}},
		},
	},
	{
		user:   user{Subject: "erik", Groups: []string{"support"}},
		client: sdk.Implementation{Name: "demo-editor", Version: "0.9.2"},
		calls: []sdk.CallToolParams{
			{Name: "notes__search", Arguments: map[string]any{"query": "on-call"}},
			// Not for support.
			{Name: "ops__deploy", Arguments: map[string]any{
				"service": "search", "version": "9.9.9", "environment": "production",
			}},
			{Name: "notes__read", Arguments: map[string]any{"number": 404}},
			{Name: "handbook__nothing"},
		},
	},
}

// Visit starts visitors that call the gateway until ctx ends, if the demo has users. The function that it
// returns waits for them.
func (d *Demo) Visit(ctx context.Context, endpoint string) (wait func()) {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i, v := range visitors {
		if d.signIn == nil {
			break
		}
		key := d.Key(v.user.Subject)
		all.Go(func() { v.visit(ctx, endpoint, key, visitEvery+time.Duration(i)*time.Second) })
	}
	return func() {
		stop()
		all.Wait()
	}
}

// visit makes one call after the other, in a new session now and then.
func (v visitor) visit(ctx context.Context, endpoint, key string, every time.Duration) {
	next := time.NewTicker(every)
	defer next.Stop()
	with := withKey{key, &http.Transport{}}
	defer with.over.CloseIdleConnections()
	for tick(ctx, next) {
		session, err := sdk.NewClient(&v.client, nil).Connect(ctx, &sdk.StreamableClientTransport{
			Endpoint: endpoint, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: with},
		}, nil)
		if err != nil {
			continue // the gateway is about to start, or to stop
		}
		for i := 0; i < callsOfSession && tick(ctx, next); i++ {
			v.call(ctx, session, v.calls[i%len(v.calls)])
		}
		_ = session.Close()
	}
}

// tick waits for the next call. It returns false when ctx has ended.
func tick(ctx context.Context, next *time.Ticker) bool {
	select {
	case <-ctx.Done():
		return false
	case <-next.C:
		return ctx.Err() == nil
	}
}

// call makes a call. The console shows its result.
func (v visitor) call(ctx context.Context, session *sdk.ClientSession, params sdk.CallToolParams) {
	ctx, cancel := context.WithTimeout(ctx, visitLimit)
	defer cancel()
	_, _ = session.CallTool(ctx, &params)
}

// WithoutVisitors leaves out the log lines of visitors' calls, which would scroll the welcome text away.
// The console has them.
func WithoutVisitors(to slog.Handler) slog.Handler { return withoutVisitors{to} }

type withoutVisitors struct{ slog.Handler }

// Handle writes a line, unless it is about a visitor.
func (h withoutVisitors) Handle(ctx context.Context, r slog.Record) error {
	ours := false
	r.Attrs(func(a slog.Attr) bool {
		ours = a.Key == "user" && slices.ContainsFunc(visitors,
			func(v visitor) bool { return v.user.Subject == a.Value.String() })
		return !ours
	})
	if ours {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup keep leaving lines out.
func (h withoutVisitors) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutVisitors{h.Handler.WithAttrs(attrs)}
}

func (h withoutVisitors) WithGroup(name string) slog.Handler {
	return withoutVisitors{h.Handler.WithGroup(name)}
}

// withKey sends an API key with each request.
type withKey struct {
	key  string
	over *http.Transport
}

// RoundTrip sends a request.
func (w withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.key)
	return w.over.RoundTrip(r)
}
