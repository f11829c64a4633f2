package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

const (
	// tokenVariable is the environment variable with the token of an operator.
	tokenVariable = "GATEHOUSE_ADMIN_TOKEN"
	// answerTimeout bounds a request, and mostAnswer its answer, in bytes.
	answerTimeout = 30 * time.Second
	mostAnswer    = 64 << 20
)

// operator asks the admin API of a running gateway.
type operator struct {
	config, url string         // flags
	asJSON      bool           // likewise
	found       bool           // the configuration was found, not named
	files       tlsfiles.Files // likewise
	token       string
	role        string // that is needed; empty for what needs neither the API nor a token
	transport   *http.Transport
}

// operatorCommand completes a command that asks the API with its flags.
func operatorCommand(cmd *cobra.Command, o *operator, do func(*cobra.Command, []string) error) *cobra.Command {
	outputFlags(cmd, &o.asJSON, "print what the gateway answers, as JSON")
	cmd.Long += "\n\nIt asks a gateway that runs, through its admin API (admin.api in the configuration). The token comes from " +
		tokenVariable + ", or from the configuration."
	return askingCommand(cmd, o, do)
}

// askingCommand completes a command that asks the admin listener with its flags.
func askingCommand(cmd *cobra.Command, o *operator, do func(*cobra.Command, []string) error) *cobra.Command {
	flags := cmd.Flags()
	namedConfig(cmd, &o.config)
	flags.StringVar(&o.url, "admin", "",
		"`URL` of the gateway's admin listener, such as http://127.0.0.1:9090 or unix:/path, in place of --config")
	flags.StringVar(&o.files.CA, "ca-file", "",
		"`FILE` with the authority of the admin listener's certificate; by default the system's, and with --config "+
			"its own one")
	flags.StringVar(&o.files.Cert, "cert-file", "", "`FILE` with a client certificate, where admin.tls asks for one")
	flags.StringVar(&o.files.Key, "key-file", "", "`FILE` with its key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.named(); err != nil {
			return err
		}
		err := o.find()
		if err == nil {
			err = do(cmd, args)
		}
		if err != nil {
			return &problemError{err}
		}
		return nil
	}
	return cmd
}

// named checks that the flags say which gateway is meant, or finds its configuration.
func (o *operator) named() error {
	o.found = o.url == "" && o.config == ""
	var err error
	if o.url == "" {
		err = findConfig(&o.config)
	}
	if err != nil && !errors.Is(err, errNoConfig) {
		return &problemError{fmt.Errorf("say which gateway to ask with --admin URL: %w", err)}
	}
	if o.url != "" && o.config != "" || err != nil {
		return errors.New("say which gateway to ask: --config FILE or --admin URL")
	}
	return nil
}

// find finds the gateway and the token.
func (o *operator) find() error {
	if o.role != "" {
		o.token = os.Getenv(tokenVariable)
	}
	if o.files.Validate() != nil {
		return misuse("--cert-file and --key-file: one needs the other")
	}
	trusted, err := o.files.Config()
	if err != nil {
		return err
	}
	o.transport = http.DefaultTransport.(*http.Transport).Clone()
	// HTTP/1.1 reports why a server refuses a certificate; net/http's HTTP/2 mostly does not.
	o.transport.TLSClientConfig, o.transport.ForceAttemptHTTP2 = trusted, false
	if o.dial(o.url) {
		o.url = "http://" + o.url
		return nil
	}
	if o.url != "" {
		u, err := url.Parse(o.url)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return misuse("--admin %q: want a URL such as http://127.0.0.1:9090, or unix:/path", o.url)
		}
		o.url = strings.TrimSuffix(o.url, "/")
		return nil
	}
	section, bad := config.Operators(o.config)
	kind, _ := doorway.Kind(section.Listen)
	host, port, err := net.SplitHostPort(section.Listen)
	switch {
	case section.Listen == "" && bad == nil && o.role == "":
		return fmt.Errorf("%s has no admin.listen, where a gateway says whether it is well", o.config)
	case section.API.IsZero() && bad == nil && o.role != "":
		return fmt.Errorf("%s has no admin.api: see docs/admin-api.md", o.config)
	case kind == doorway.Systemd:
		return fmt.Errorf("%s has admin.listen: %s: say where that is with --admin, in place of --config", o.config,
			section.Listen)
	case err != nil:
		return cmp.Or(bad, err)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if !o.dial(section.Listen) {
		if o.found && !loopback.Host(host) { // somebody else may have written the file, and would get the token
			return fmt.Errorf("%s was only found here, and its admin.listen is not on this machine: name it with --config",
				o.config)
		}
		o.url = net.JoinHostPort(host, port)
	}
	o.url = section.TLS.Scheme() + "://" + o.url
	if o.files.CA == "" && !section.TLS.IsZero() {
		if err := section.TLS.Trust(trusted); err != nil {
			return fmt.Errorf("%s: admin.tls: %w", o.config, err)
		}
	}
	if o.token != "" || o.role == "" || section.API.Loopback == o.role {
		return nil
	}
	for _, t := range section.API.Tokens {
		if o.token == "" || t.Role == o.role {
			o.token = string(t.Secret)
		}
		if t.Role == o.role {
			break
		}
	}
	if o.token == "" {
		return bad
	}
	return nil
}

// dial has all requests go to a socket, if the address is that of one.
func (o *operator) dial(address string) bool {
	kind, path := doorway.Kind(address)
	if kind != doorway.Unix {
		return false
	}
	o.url = "localhost"
	o.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, kind, path)
	}
	return true
}

// request makes a request. The caller closes the body of the answer, which has one of the
// accepted statuses.
func (o *operator) request(ctx context.Context, method, path string, query url.Values,
	accepted ...int) (*http.Response, error) {
	return o.send(ctx, method, path, query, http.NoBody, accepted...)
}

// send is request with a body.
func (o *operator) send(ctx context.Context, method, path string, query url.Values, body io.Reader,
	accepted ...int) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, o.url+path, body)
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = query.Encode()
	if o.token != "" {
		r.Header.Set("Authorization", "Bearer "+o.token)
	}
	client := http.Client{Transport: o.transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the gateway does not answer at %s: %w", o.url, errors.Unwrap(err))
	}
	for _, status := range accepted {
		if resp.StatusCode == status {
			return resp, nil
		}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var answer struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(text, &answer) != nil || answer.Error.Code == "" {
		return nil, fmt.Errorf("%s answers %s: is this the admin listener of a gateway, with admin.api?", o.url, resp.Status)
	}
	return nil, fmt.Errorf("%s (%s)", shown(answer.Error.Message), shown(answer.Error.Code))
}

// ask makes a request, returns its answer as text, and reads it into v.
func (o *operator) ask(ctx context.Context, method, path string, query url.Values, v any,
	accepted ...int) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	resp, err := o.request(ctx, method, path, query, append(accepted, http.StatusOK)...)
	if err != nil {
		return nil, err
	}
	return read(resp, v)
}

// tell is ask with a body.
func (o *operator) tell(ctx context.Context, method, path string, body []byte, v any) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	resp, err := o.send(ctx, method, path, nil, bytes.NewReader(body), http.StatusOK)
	if err != nil {
		return nil, err
	}
	return read(resp, v)
}

// read returns an answer as text, and reads it into v.
func read(resp *http.Response, v any) (text []byte, err error) {
	defer resp.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(resp.Body, mostAnswer)); err != nil {
		return nil, err
	}
	return text, json.Unmarshal(text, v)
}

// follow calls do with each event of a stream until do returns an error, ctx ends or the stream
// does.
func (o *operator) follow(ctx context.Context, path string, query url.Values,
	do func(event string, data []byte) error) error {
	resp, err := o.request(ctx, http.MethodGet, path, query, http.StatusOK)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	event := ""
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(name) {
		case "event":
			event = string(value)
		case "data":
			if err := do(event, value); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return nil // the user has interrupted it
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the stream broke: %w", err)
	}
	return errors.New("the gateway has ended the stream")
}
