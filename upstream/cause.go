package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os/exec"

	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// maxCause bounds a cause, in bytes: parts of it may be a server's words.
const maxCause = 300

// cause says for the operator what went wrong, with the host or program that it is about.
// Of a URL only the host is told, since paths and queries may be secrets.
func (u *Upstream) cause(err error) string {
	var (
		status  *transport.StatusError
		cert    *tls.CertificateVerificationError
		dns     *net.DNSError
		dial    *net.OpError
		program *exec.Error
		path    *fs.PathError
	)
	text := ""
	switch {
	case errors.As(err, &status):
		text = status.Error()
	case errors.As(err, &cert):
		text = cert.Err.Error()
	case errors.As(err, &dns):
		text = dns.Error()
	case errors.As(err, &dial):
		text = dial.Error()
	case errors.As(err, &program):
		text = program.Error()
	case errors.As(err, &path):
		text = path.Error()
	default:
		text = innermost(err).Error()
	}
	if len(text) > maxCause {
		text = text[:maxCause] + "..."
	}
	return fmt.Sprintf("%s: %s", u.hostOrProgram(), text)
}

// hostOrProgram is where the server is: a host, or the name of a program.
func (u *Upstream) hostOrProgram() string {
	if len(u.cfg.Command) > 0 {
		return u.cfg.Command[0]
	}
	if at, err := url.Parse(u.cfg.URL); err == nil {
		return at.Host
	}
	return u.cfg.Name
}

// innermost is the first error of all: those around it repeat addresses.
func innermost(err error) error {
	for {
		switch wrapped := err.(type) {
		case interface{ Unwrap() error }:
			inner := wrapped.Unwrap()
			if inner == nil {
				return err
			}
			err = inner
		case interface{ Unwrap() []error }:
			all := wrapped.Unwrap()
			if len(all) == 0 {
				return err
			}
			err = all[len(all)-1]
		default:
			return err
		}
	}
}
