package tracing

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// defaultPath is where a collector takes traces (OTLP/HTTP).
const defaultPath = "/v1/traces"

// Config is the section "tracing". Its zero value traces nothing. A reload applies every
// change.
type Config struct {
	// Endpoint is the URL of a collector that speaks OTLP over HTTP (protobuf), such as
	// https://otel.example.com:4318. Without a path, /v1/traces is used. Required.
	Endpoint string `yaml:"endpoint" secret:"path"`
	// Headers go with every request to the collector. Default none.
	Headers map[string]mcp.Secret `yaml:"headers"`
	// CAFile holds the PEM certificates of the authorities that sign the collector's certificate.
	// Default: those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile hold the gateway's own certificate and its key, in PEM, for a collector
	// that asks for one. They are read again for each connection. Default none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// Sample is which share of the calls is traced, from 0 to 1. Default 1.
	Sample string `yaml:"sample"`
	// TrustParent leaves the decision to clients that have made it: the flag "sampled" of their
	// traceparent. Default false.
	TrustParent bool `yaml:"trust_parent"`
}

// IsZero reports whether nothing is traced.
func (c Config) IsZero() bool {
	return c.Endpoint == "" && c.Headers == nil && c.certificates().IsZero() && c.Sample == "" && !c.TrustParent
}

func (c Config) certificates() tlsfiles.Files {
	return tlsfiles.Files{CA: c.CAFile, Cert: c.CertFile, Key: c.KeyFile}
}

// Validate reports everything that is wrong, each problem with the path of its key in front.
func (c Config) Validate() error {
	if c.IsZero() {
		return nil
	}
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
	_, err := c.share()
	found.Join(err)
	return found.Err()
}

// share is which share of the calls is traced.
func (c Config) share() (float64, error) {
	if c.Sample == "" {
		return 1, nil
	}
	share, err := strconv.ParseFloat(c.Sample, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("sample: %q: want a number from 0 to 1, such as 0.01 for one call in a hundred", c.Sample)
	}
	return share, nil
}

// url is the endpoint with its path.
func (c Config) url() string {
	u, err := url.Parse(c.Endpoint)
	if err != nil || strings.Trim(u.Path, "/") != "" {
		return c.Endpoint
	}
	u.Path = defaultPath
	return u.String()
}
