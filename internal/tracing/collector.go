package tracing

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Collector says where traces or metrics go.
type Collector struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP (protobuf). Without a path, /v1/traces or
	// /v1/metrics is used. Required.
	Endpoint string `yaml:"endpoint" secret:"path"`
	// Headers go with every request to the collector. Default none.
	Headers map[string]mcp.Secret `yaml:"headers"`
	// CAFile has the authorities that sign the collector's certificate, in PEM. Default: those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the gateway's own certificate and its key, in PEM, for a collector that asks
	// for one. They are read again for each connection. Default none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// IsZero reports whether no key is set.
func (c Collector) IsZero() bool {
	return c.Endpoint == "" && c.Headers == nil && c.certificates().IsZero()
}

func (c Collector) certificates() tlsfiles.Files {
	return tlsfiles.Files{CA: c.CAFile, Cert: c.CertFile, Key: c.KeyFile}
}

// Validate reports everything that is wrong, each problem with the path of its key in front.
func (c Collector) Validate() error {
	var found problems.List
	if u, err := url.Parse(c.Endpoint); c.Endpoint == "" {
		found.Add("endpoint: is needed: the URL of a collector, such as https://otel.example.com:4318")
	} else if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		found.Add("endpoint: want an http or https URL, such as https://otel.example.com:4318")
	} else if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		found.Add("endpoint: user, query and fragment do not belong in it: put credentials into headers")
	}
	if files := c.certificates(); !files.IsZero() && !strings.HasPrefix(c.Endpoint, "https:") {
		found.Add("ca_file, cert_file and key_file: they are for https, with which the endpoint does not begin")
	} else {
		found.Join(files.Validate())
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if !httpguts.ValidHeaderFieldName(name) {
			found.Add("headers: %q is not the name of a header", name)
		} else if !httpguts.ValidHeaderFieldValue(string(c.Headers[name])) {
			found.Add("headers: %s: the value has characters that no header may have", name)
		}
	}
	return found.Err()
}

// URL is the endpoint, by default with a path such as /v1/metrics.
func (c Collector) URL(path string) string {
	u, err := url.Parse(c.Endpoint)
	if err != nil || strings.Trim(u.Path, "/") != "" {
		return c.Endpoint
	}
	u.Path = path
	return u.String()
}

// reason says why a collector at a URL did not take something, without the URL, which may hold a secret.
func reason(err error, url string) string {
	why := strings.ReplaceAll(err.Error(), url, "the endpoint")
	return why[:min(len(why), maxReason)]
}

// Transport makes the transport for requests to the collector. It does no I/O but for the certificates.
func (c Collector) Transport() (*http.Transport, error) {
	over := http.DefaultTransport.(*http.Transport).Clone()
	var err error
	over.TLSClientConfig, err = c.certificates().Config()
	return over, err
}

// Client makes a client for requests to the collector.
func (c Collector) Client(over http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: over,
		// The headers may be a credential, which is for the endpoint alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// AllHeaders are the headers of each request, with the name of this program.
func (c Collector) AllHeaders() map[string]string {
	headers := map[string]string{"User-Agent": mcp.UserAgent()}
	for name, value := range c.Headers {
		headers[name] = string(value)
	}
	return headers
}

// Resource describes this process to collectors.
func Resource(version, replica string) *resource.Resource {
	return resource.NewSchemaless(
		attribute.String("service.name", "gatehouse"),
		attribute.String("service.version", version),
		attribute.String("service.instance.id", replica),
	)
}
