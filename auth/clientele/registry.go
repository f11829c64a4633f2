package clientele

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// RefusedError says why a client is refused, for the user who signs in to read. OAuth calls it
// invalid_client.
type RefusedError struct {
	Text string
	// Again says that it may be otherwise in a while: the client's document cannot be read now.
	Again bool
}

// Error returns the reason.
func (e *RefusedError) Error() string { return e.Text }

func refused(format string, args ...any) *RefusedError {
	return &RefusedError{Text: fmt.Sprintf(format, args...)}
}

// Fetcher makes HTTP requests; see safehttp.Client.
type Fetcher interface {
	Do(*http.Request) (*safehttp.Response, error)
}

// Deps are the dependencies of a Registry.
type Deps struct {
	// Issuer is the identifier of the authorization server. A registration is only good there.
	Issuer string
	// Key seals registrations. All replicas have the same one.
	Key *seal.Key
	// Fetch gets documents of clients. Nil for requests to public addresses only, by Route.
	Fetch Fetcher
	Route egress.Config
	// Documents keeps those that were good. Nil for memory, up to MaxDocuments.
	Documents *expiring.Store
	// Shared reports whether many clients come from an address, as from that of a proxy. Nil for no.
	Shared func(netip.Addr) bool
	// Log receives registrations and documents that cannot be used. Nil for none.
	Log *slog.Logger
}

// Registry knows the clients. It is safe for concurrent use.
type Registry struct {
	cfg       Config
	deps      Deps
	fixed     map[string]Client
	documents *documents
	pace      *pace
}

// New makes the registry of a configuration that is valid. It reads the copies of documents.
func New(cfg Config, deps Deps) (*Registry, error) {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Fetch == nil {
		deps.Fetch = public{deps.Route}
	}
	if deps.Documents == nil {
		deps.Documents = expiring.New(expiring.Base{}, nil, "documents", MaxDocuments)
	}
	cfg.Registration.DCR.Lifetime = cmp.Or(cfg.Registration.DCR.Lifetime, DefaultLifetime)
	r := &Registry{cfg: cfg, deps: deps, fixed: make(map[string]Client), documents: newDocuments(deps)}
	r.pace = newPace(deps.Shared, atOnce, every, atOnceOfOne, everyOfOne)
	for i, f := range cfg.Clients {
		client, err := f.client()
		if err != nil {
			return nil, fmt.Errorf("clients[%d]: %w", i, err)
		}
		r.fixed[client.ID] = client
	}
	return r, nil
}

// client returns the client that the configuration names.
func (f Fixed) client() (c Client, err error) {
	if f.Document != "" {
		body, err := os.ReadFile(f.Document)
		if err != nil {
			return c, fmt.Errorf("document: %w", err)
		}
		if c, err = parseDocument(f.ID, body); err != nil {
			return c, fmt.Errorf("document: %s %w", f.Document, err)
		}
	}
	c.ID, c.Kind, c.Name = f.ID, KindFixed, cmp.Or(f.Name, c.Name, f.ID)
	c.Method = cmp.Or(c.Method, MethodNone)
	if len(f.RedirectURIs) > 0 {
		c.Redirects = f.RedirectURIs
	}
	if f.Secret != "" {
		c.Method, c.secret = MethodBasic, sha256.Sum256([]byte(f.Secret))
	}
	return c, nil
}

// Find returns the client with this id. The error is a *RefusedError, or that of the context.
func (r *Registry) Find(ctx context.Context, id string) (Client, error) {
	if client, known := r.fixed[id]; known {
		return client, nil
	}
	switch {
	case strings.HasPrefix(id, registeredPrefix):
		return r.registered(id)
	case strings.HasPrefix(id, "https:"):
		return r.documented(ctx, id)
	}
	return Client{}, refused("The gateway knows no client with this client_id.")
}

// Documents reports whether a client's id may be the URL of its document:
// client_id_metadata_document_supported in the metadata of the authorization server.
func (r *Registry) Documents() bool {
	if len(r.cfg.Registration.CIMD.Allow) > 0 {
		return true
	}
	for _, f := range r.cfg.Clients {
		if f.Document != "" {
			return true
		}
	}
	return false
}

// Registers reports whether clients can register themselves: registration_endpoint.
func (r *Registry) Registers() bool { return r.cfg.Registration.DCR.Enabled }

// Methods returns how clients can prove who they are: token_endpoint_auth_methods_supported.
func (r *Registry) Methods() []string { return []string{MethodNone, MethodBasic, MethodPost} }

// documented returns a client that has the URL of its document as its id.
func (r *Registry) documented(ctx context.Context, id string) (Client, error) {
	if err := checkDocumentURL(id); err != nil {
		return Client{}, refused("The client_id is no URL of a document about a client: it %v.", err)
	}
	if change := r.cfg.DocumentAllowed(id); change != nil {
		r.deps.Log.Debug("client refused", "client", id, "change", change.Error())
		return Client{}, refused("Clients of %s may not sign in here. Whoever runs the gateway can allow them.", hostOf(id))
	}
	return r.documents.get(ctx, id)
}
