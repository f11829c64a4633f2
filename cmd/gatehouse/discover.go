package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/discovery"
)

// podDirectory has what Kubernetes gives a pod for its API.
const podDirectory = "/var/run/secrets/kubernetes.io/serviceaccount"

func newDiscover() *cobra.Command {
	cfg := discovery.Config{Bearer: func() (string, error) { return "", nil }}
	var once bool
	cmd := &cobra.Command{
		Use:   "discover --dir DIR",
		Short: "Write the MCP servers of a Kubernetes cluster as upstreams",
		Long: "Watches the Services with the label gatehouse.dev/mcp=true, and writes an upstream for each\n" +
			"into DIR, in one file for each namespace. A configuration with include: [DIR/*.yaml] takes\n" +
			"them up; its teams say what each namespace may name (docs/discovery.md). It runs in a\n" +
			"container of its own beside the gateway, so that the gateway needs no access to the API.",
		Args: noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			if info, err := os.Stat(cfg.Dir); err != nil || !info.IsDir() {
				return fmt.Errorf("--dir %q: want a directory that exists", cfg.Dir)
			}
			if err := findAPI(&cfg, os.Getenv, podDirectory); err != nil {
				return err
			}
			cfg.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			if once {
				return discovery.Once(cmd.Context(), cfg)
			}
			return discovery.Watch(untilSignal(cmd.Context()), cfg)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Dir, "dir", "", "`DIR` to write (required)")
	_ = cmd.MarkFlagRequired("dir") // the flag is defined above
	flags.StringVar(&cfg.Namespace, "namespace", "", "`NAMESPACE` whose Services count (default: all)")
	flags.StringVar(&cfg.Selector, "selector", "gatehouse.dev/mcp=true", "`LABELS` that Services have")
	flags.StringVar(&cfg.Domain, "domain", "cluster.local", "`DOMAIN` of the cluster's names")
	flags.StringVar(&cfg.API, "api", "", "`URL` of the API, such as that of kubectl proxy (default: as a pod finds it)")
	flags.BoolVar(&once, "once", false, "write the files and end")
	return cmd
}

// findAPI completes where the API is: as a pod finds it, unless its URL is given.
func findAPI(cfg *discovery.Config, env func(string) string, pod string) error {
	transport := &http.Transport{ForceAttemptHTTP2: true, ResponseHeaderTimeout: 30 * time.Second}
	cfg.HTTP = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is for the API alone
	}}
	if cfg.API != "" {
		if u, err := url.Parse(cfg.API); err != nil || u.Host == "" {
			return misuse("--api %q: want a URL such as http://127.0.0.1:8001", cfg.API)
		}
		cfg.API = strings.TrimSuffix(cfg.API, "/")
		return nil
	}
	host := env("KUBERNETES_SERVICE_HOST")
	if host == "" {
		return errors.New("this is no pod of Kubernetes: say where the API is with --api")
	}
	cfg.API = "https://" + net.JoinHostPort(host, cmp.Or(env("KUBERNETES_SERVICE_PORT"), "443"))
	authorities, err := os.ReadFile(filepath.Join(pod, "ca.crt"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return fmt.Errorf("%s holds no certificate in PEM", filepath.Join(pod, "ca.crt"))
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	cfg.Bearer = func() (string, error) { // read for each request: Kubernetes replaces it within the hour
		token, err := os.ReadFile(filepath.Join(pod, "token"))
		return strings.TrimSpace(string(token)), err
	}
	return nil
}
