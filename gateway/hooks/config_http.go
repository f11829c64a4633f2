package hooks

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Values of HTTP.OnFailure.
const (
	Refused = "refuse"
	Passed  = "pass"
)

const (
	defaultTimeout = 5 * time.Second
	mostTimeout    = time.Minute
	defaultBytes   = 1 << 20
	mostBytes      = 64 << 20
)

// HTTP names the service of the operator that decides.
type HTTP struct {
	// URL is asked by POST: https, or http on a loopback address. Required.
	URL string `yaml:"url" secret:"path"`
	// AllowPlaintext allows http to hosts that are not loopback. Default false.
	AllowPlaintext bool `yaml:"allow_plaintext"`
	// Headers are sent with each request. Default none.
	Headers map[string]mcp.Secret `yaml:"headers"`
	// CAFile has the authorities that sign the service's certificate, in PEM. Default: those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the gateway's own certificate and its key, in PEM, for a service that asks for
	// one. Default none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// Timeout bounds one request. Default 5s, at most 1m.
	Timeout time.Duration `yaml:"timeout"`
	// OnFailure decides on content that the service does not judge: "refuse", the default, or
	// "pass".
	OnFailure string `yaml:"on_failure"`
	// MaxBytes is the size of the largest content that is sent. Larger content counts as not judged. Default
	// 1MiB, at most 64MiB.
	MaxBytes int64 `yaml:"max_bytes"`
}

func (c HTTP) certificates() tlsfiles.Files {
	return tlsfiles.Files{CA: c.CAFile, Cert: c.CertFile, Key: c.KeyFile}
}

// headerName matches valid names of headers.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func (c HTTP) problems() (found problems.List) {
	scheme, loopback, err := checkURL(c.URL)
	switch {
	case err != nil:
		found.Add("url: %w", err)
	case scheme == "http" && !loopback && !c.AllowPlaintext:
		found.Add("url: http is only for loopback addresses; use https, or set allow_plaintext: true")
	case scheme == "http" && !c.certificates().IsZero():
		found.Add("ca_file, cert_file and key_file: they are for https, with which the URL does not begin")
	}
	found.Join(c.certificates().Validate())
	for name, value := range c.Headers {
		switch lower := strings.ToLower(name); {
		case !headerName.MatchString(name):
			found.Add("headers: %q is not the name of a header", name)
		case lower == "host" || lower == "content-type" || lower == "content-length" || lower == "transfer-encoding" ||
			lower == "connection":
			found.Add("headers[%s]: the gateway sets it", name)
		case strings.ContainsFunc(string(value), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			found.Add("headers[%s]: has control characters", name)
		}
	}
	found.When(c.Timeout < 0 || c.Timeout > mostTimeout, "timeout: %s: want at most %s", c.Timeout, mostTimeout)
	found.When(c.OnFailure != "" && c.OnFailure != Refused && c.OnFailure != Passed,
		"on_failure: %q: want refuse or pass", c.OnFailure)
	found.When(c.MaxBytes < 0 || c.MaxBytes > mostBytes, "max_bytes: %d: want at most 64MiB", c.MaxBytes)
	return found
}

// checkURL reads a URL. Its error does not show it: it may hold a secret.
func checkURL(raw string) (scheme string, loopback bool, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http":
		return "", false, errors.New("want https:// or http:// and the service")
	case u.Hostname() == "":
		return "", false, errors.New("it names no host")
	case u.User != nil:
		return "", false, errors.New("a user does not belong in it; put credentials into headers")
	case u.Fragment != "":
		return "", false, errors.New("a fragment does not belong in it")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme, strings.EqualFold(u.Hostname(), "localhost") || err == nil && ip.Unmap().IsLoopback(), nil
}
