package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// target is one of the servers that are compared. direct has no process of its own.
type target struct {
	name      string
	processes []*rig.Process // their CPU time is added up
	url       string         // of its root, or of a gateway's endpoint
	gateway   bool
	// begin is the URL where sessions begin, if that is another replica, which then owns
	// them.
	begin string
	rest  int // memory before the first scenario, in bytes
	// most is the largest allowed ratio; 0 means that of the scenario.
	most float64
}

// target returns the largest allowed ratio of its CPU in a scenario.
func (t target) target(s scenario) float64 { return cmp.Or(t.most, s.target) }

func (t target) endpoint(s scenario) string {
	if t.gateway {
		return t.url
	}
	return t.url + s.path()
}

// rigged is everything that runs during a measurement.
type rigged struct {
	dir     string // of the gateway's configuration
	counted string // URL of the server's counters
	targets []target
	beside  string // the target with which all others are compared
	cert    string // PEM files of the certificate of all servers; "" without TLS
	key     string
	chain   *chain // what is around a gateway with everything on; nil for none
	started []*rig.Process
}

// setUp starts the server and the targets.
func setUp(ctx context.Context, o options) (*rigged, error) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		return nil, err
	}
	binary, err := checkout.Build(ctx, "./cmd/gatehouse")
	if err != nil {
		return nil, err
	}
	r := &rigged{}
	if r.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return nil, err
	}
	if o.tls {
		err = r.certify()
	}
	if err == nil {
		err = r.start(ctx, binary, o)
	}
	if err != nil {
		return nil, errors.Join(err, r.tearDown())
	}
	return r, nil
}

// start starts the server and the targets.
func (r *rigged) start(ctx context.Context, binary string, o options) error {
	upstream, err := r.startRole(ctx, roleUpstream, "-lists", strconv.Itoa(o.upstreams),
		"-classes="+strconv.FormatBool(o.full))
	if err != nil {
		return err
	}
	r.counted = upstream.url + pathCounts
	if o.replicas {
		return r.addReplicas(ctx, binary, upstream.url, o)
	}
	bare, err := r.startRole(ctx, roleBare, "-to", upstream.url)
	if err != nil {
		return err
	}
	bare.name = "bare"
	r.beside = bare.name
	r.targets = []target{{name: "direct", url: upstream.url}, bare}
	if o.full {
		if err := r.addChain(ctx, o); err != nil {
			return err
		}
	}
	if err := r.addGateway(ctx, "gatehouse", binary, upstream.url, o); err != nil || o.against == "" {
		return err
	}
	return r.addGateway(ctx, "against", o.against, upstream.url, o)
}

// certify makes a certificate for all servers, and has this process and its children trust it.
func (r *rigged) certify() error {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	pair := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return err
	}
	r.cert, r.key = filepath.Join(r.dir, "cert.pem"), filepath.Join(r.dir, "key.pem")
	return errors.Join(
		os.WriteFile(r.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600),
		os.WriteFile(r.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
		os.Setenv("SSL_CERT_FILE", r.cert))
}

// tearDown stops everything in reverse order.
func (r *rigged) tearDown() error {
	var errs []error
	for i := len(r.started) - 1; i >= 0; i-- {
		errs = append(errs, r.started[i].Stop())
	}
	if r.chain != nil {
		r.chain.close()
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// scheme returns that of the URLs of all servers.
func (r *rigged) scheme() string {
	if r.cert != "" {
		return "https"
	}
	return "http"
}

// startRole starts this program as one of its servers.
func (r *rigged) startRole(ctx context.Context, role string, args ...string) (target, error) {
	self, err := os.Executable()
	if err != nil {
		return target{}, err
	}
	addr, err := mcptest.FreeAddress("127.0.0.1")
	if err != nil {
		return target{}, err
	}
	args = append([]string{role, "-listen", addr, "-cert", r.cert, "-key", r.key}, args...)
	p, err := rig.Start(exec.Command(self, args...))
	if err != nil {
		return target{}, err
	}
	r.started = append(r.started, p)
	return target{name: role, processes: []*rig.Process{p}, url: r.scheme() + "://" + addr}, p.WaitListening(ctx, addr)
}

func named(name string, g rig.Gateway) target {
	t := target{name: name, processes: []*rig.Process{g.Process}, url: g.URL, gateway: true}
	t.rest, _ = t.memory() // the report says why it cannot be read
	return t
}

// addGateway starts a gateway that is compared with bare.
func (r *rigged) addGateway(ctx context.Context, name, binary, upstream string, o options) error {
	var sections string
	var with rig.GatewayConfig
	if r.chain != nil {
		var err error
		if sections, with, err = r.chain.config(filepath.Join(r.dir, name+".jsonl")); err != nil {
			return err
		}
	}
	g, err := r.startGateway(ctx, binary, upstream, sections, o, with)
	if err != nil {
		return err
	}
	t := named(name, g)
	r.targets = append(r.targets, t)
	if r.chain == nil {
		return nil
	}
	list := scenario{stateless: true, method: mcp.MethodToolsList}
	// it looks at its upstreams for each class
	return g.WaitFor(ctx, func(context.Context) error { return r.chain.meet(list, t) })
}

// startGateway starts a gateway with additional configuration sections, and waits until it
// has all tools. with may have its address, and how users sign in.
func (r *rigged) startGateway(ctx context.Context, binary, upstream, sections string, o options,
	with rig.GatewayConfig) (rig.Gateway, error) {
	dir, err := os.MkdirTemp(r.dir, "gateway-")
	if err != nil {
		return rig.Gateway{}, err
	}
	var config strings.Builder
	config.WriteString(sections)
	if with.Scheme = r.scheme(); with.Scheme == "https" {
		fmt.Fprintf(&config, "\ntls: {cert_file: %q, key_file: %q}\n", r.cert, r.key)
	}
	config.WriteString("\nupstreams:\n")
	add := func(name, path string) {
		fmt.Fprintf(&config, "  - {name: %s, url: %q, http_client: %s}\n", name, upstream+path, o.client)
	}
	add(upstreamStateful, pathStateful)
	add(upstreamStateless, pathStateless)
	for i := range o.upstreams {
		add(upstreamList(i), fmt.Sprintf("%s%d", pathTools, i))
	}
	// A file receives the log without a process that reads it.
	path := o.log
	if o.full && path == os.DevNull {
		path = filepath.Join(dir, "log")
	}
	log, err := os.Create(path)
	if err != nil {
		return rig.Gateway{}, err
	}
	defer log.Close() // the child has its own copy
	with.Binary, with.Dir, with.Sections, with.Log = binary, dir, config.String(), log
	g, err := rig.StartGateway(ctx, with)
	if err != nil {
		return g, err
	}
	r.started = append(r.started, g.Process)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	names := []string{publicName(upstreamStateful, "small"), publicName(upstreamStateless, "small")}
	for i := range min(o.upstreams, lists) { // those on the first page
		names = append(names, publicName(upstreamList(i), "tool_00"))
	}
	return g, g.WaitTools(ctx, names...)
}
