package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Limits of the HTTP server. Streams last as long as their clients, and calls as long as they need:
// the front sets its own deadlines before it reads a body and before it writes. All other
// connections have these limits; otherwise a client that neither sends nor reads would hold its
// connection, and a stop would wait for it.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = time.Minute // from the head of the request on
	maxHeaderBytes    = 32 << 10
)

// askAuthority bounds a request to an authority that issues certificates, and mostIssued what is kept of orders.
const (
	askAuthority = 30 * time.Second
	mostIssued   = 1000
)

// bind listens at the address under a key of the configuration.
func bind(passed *doorway.Passed, key, address string) (net.Listener, error) {
	l, err := passed.Listen(address)
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", key, address, err)
	}
	return l, nil
}

// bindEndpoint listens at the address of the endpoint. Only then is that of a passed socket known.
func bindEndpoint(passed *doorway.Passed, cfg config.Config) (net.Listener, error) {
	l, err := bind(passed, "listen", cfg.Listen)
	if err != nil {
		return nil, err
	}
	if kind, _ := doorway.Kind(cfg.Listen); kind == doorway.Systemd && l.Addr().Network() == doorway.TCP {
		if err := cfg.Auth.CheckListener(l.Addr().String()); err != nil {
			return nil, errors.Join(fmt.Errorf("listen: %s: %w", cfg.Listen, err), l.Close())
		}
	}
	return l, nil
}

func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout, // of a TLS handshake, too
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       doorway.DefaultIdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// secure has a server use certificates, nil for plain HTTP.
func (s *shared) secure(server *http.Server, with *tlsfiles.Live) {
	if with != nil {
		server.TLSConfig = with.Config()
		server.ErrorLog = log.New(serverLog{s.log, s.metrics.handshakes.Inc}, "", 0)
	}
}

// serve runs a server on a listener, over TLS if the server has a configuration for that.
func serve(server *http.Server, l net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

// serveBeside runs a server beside that of clients until nearly the end of a stop. If it ends before, the log has
// the failure.
func (g *Gateway) serveBeside(name string, server *http.Server, l net.Listener, failed failure.Name) {
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := serve(server, l); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("a listener has ended", failed.Attr(), "part", name, "error", err)
		}
	})
	g.undo.OnStop(name, func(context.Context) error {
		err := server.Close()
		serving.Wait()
		return err
	})
}

// closing returns a step that closes a listener, unless its server has closed it.
func closing(l net.Listener) func(context.Context) error {
	return func(context.Context) error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// serverLog takes the lines that net/http writes. Everyone can cause a handshake that fails, so these
// are counted, and are no warnings.
type serverLog struct {
	log   *slog.Logger
	count func()
}

// byClients are the beginnings of lines that any client can cause before it has said who it is.
func byClients() []string {
	return []string{"http: TLS handshake error", "http2: server connection error", "http2: server: error reading preface",
		"http2: server closing client connection"}
}

// Write takes one line.
func (s serverLog) Write(line []byte) (int, error) {
	level, text := slog.LevelWarn, string(bytes.TrimSpace(line))
	if slices.ContainsFunc(byClients(), func(begin string) bool { return strings.HasPrefix(text, begin) }) {
		level = slog.LevelDebug
		s.count()
	}
	s.log.Log(context.Background(), level, text)
	return len(line), nil
}

// certificates are those of the listeners, each nil for plain HTTP.
type certificates struct{ endpoint, operators *tlsfiles.Live }

// serveProofs answers authorities at plain HTTP, where that is configured.
func (g *Gateway) serveProofs(passed *doorway.Passed) error {
	for section, live := range g.certificates.all {
		acme := live.Orders()
		if acme == nil || acme.HTTPListen == "" {
			continue
		}
		l, err := bind(passed, section+".acme.http_listen", acme.HTTPListen)
		if err != nil {
			return err
		}
		g.serveBeside("proofs for "+section, newServer(live.Proofs(), g.log), netutil.LimitListener(l, adminConnections),
			failure.CertificateNotIssued)
	}
	return nil
}

// openTLS reads the certificates of the listeners.
func (g *Gateway) openTLS(cfg config.Config) (err error) {
	store := expiring.New(g.base, g.key("certificates by ACME"), "acme", mostIssued)
	for _, one := range []struct {
		key   string
		files tlsfiles.Server
		live  **tlsfiles.Live
	}{{"tls", cfg.TLS, &g.certificates.endpoint}, {"admin.tls", cfg.Admin.TLS, &g.certificates.operators}} {
		if one.files.IsZero() {
			continue
		}
		with := tlsfiles.Orders{Store: store}
		if acme := one.files.ACME; acme != nil {
			client, err := safehttp.New(safehttp.Options{Trust: []string{acme.URL()}, Timeout: askAuthority,
				Route: egress.Config{TLS: egress.TLS{CAFile: acme.CAFile}, Proxy: cfg.Proxy}})
			if err != nil {
				return fmt.Errorf("%s.acme: %w", one.key, err)
			}
			with.Client = &http.Client{Transport: safehttp.RoundTripper(client.Do)}
		}
		if *one.live, err = one.files.Open(with); err != nil {
			return fmt.Errorf("%s: %w", one.key, err)
		}
	}
	return nil
}

// all returns the certificates that there are, by the keys of their sections.
func (c certificates) all(yield func(section string, live *tlsfiles.Live) bool) {
	if c.endpoint != nil && !yield("tls", c.endpoint) {
		return
	}
	if c.operators != nil {
		yield("admin.tls", c.operators)
	}
}

// watch returns a function that looks at the files again and again until its context ends.
func (c certificates) watch(log *slog.Logger, every time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				c.look(log, false)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// order returns a function that looks after an ordered certificate until its context ends.
func order(log *slog.Logger, section string, live *tlsfiles.Live) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			renewed, wait, err := live.Renew(ctx)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				log.Error("no certificate was issued: the one before stays in use, if there is one",
					failure.CertificateNotIssued.Attr(), "section", section, "error", err, "again_in", wait.String())
			case renewed:
				log.Info("certificate in use", "section", section, "ends", live.Status().Ends[0].At.UTC())
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// look reads files that have changed again; now also those that may be half written.
func (c certificates) look(log *slog.Logger, now bool) {
	for section, live := range c.all {
		switch renewed, err := live.Look(now); {
		case err != nil:
			log.Error("a changed certificate cannot be used: the one before stays in use",
				failure.CertificateRefused.Attr(), "section", section, "error", err)
		case renewed:
			log.Info("certificate read again", "section", section, "ends", live.Status().Ends[0].At.UTC())
		}
	}
}

// shown returns the certificates for findings.
func (c certificates) shown() (all []diagnose.Certificate) {
	for section, live := range c.all {
		for _, end := range live.Status().Ends {
			all = append(all, diagnose.Certificate{Section: section, End: end})
		}
	}
	return all
}

func (write sample) certificates(c certificates) {
	for section, live := range c.all {
		status := live.Status()
		for _, end := range status.Ends {
			write("gatehouse_tls_certificate_end_timestamp_seconds",
				"When a certificate in use by a listener ends, in seconds since 1970, by the key of its file.",
				unixSeconds(end.At), "key", section+"."+end.Key)
		}
		write("gatehouse_tls_last_renewal_successful",
			"1 if the last change or order of a listener's certificates was good, 0 if those before stay in use.",
			truth(status.Ends[0].Problem == ""), "section", section)
		for result, n := range map[string]int{"ok": status.Renewed, "refused": status.Refused} {
			write("gatehouse_tls_renewals_total",
				"Changed files and orders of a listener's certificates, by what became of them: ok, refused.",
				float64(n), "section", section, "result", result)
		}
	}
}
