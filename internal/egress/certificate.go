package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// maxName bounds what is shown of a name in a certificate, which anyone may have written.
const maxName = 100

// CertificateError means that the certificate of a host is not valid.
type CertificateError struct {
	*tls.CertificateVerificationError
}

// explained returns a *CertificateError in place of an error about a certificate.
func explained(err error) error {
	invalid, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if ok && len(invalid.UnverifiedCertificates) > 0 {
		return &CertificateError{invalid}
	}
	return err
}

// Unwrap returns the error of crypto/tls.
func (e *CertificateError) Unwrap() error { return e.CertificateVerificationError }

// Error describes the certificate, what is wrong with it, and which key makes it valid.
func (e *CertificateError) Error() string {
	chain := e.UnverifiedCertificates
	text := fmt.Sprintf("the certificate %s is not valid: %v", Describe(chain[0]), e.Err)
	if _, ok := errors.AsType[x509.UnknownAuthorityError](e.Err); ok {
		return text + fmt.Sprintf("; if the authority %s is to be trusted, its certificate belongs into tls.ca_file",
			missing(chain))
	}
	if _, ok := errors.AsType[x509.HostnameError](e.Err); ok {
		return text + "; if this is the right server, tls.server_name has the name in its certificate"
	}
	return text
}

// missing names the authority that is needed for a chain: the issuer of its last certificate.
func missing(chain []*x509.Certificate) string {
	last := chain[0]
	for range chain {
		for _, c := range chain {
			if c.Subject.String() == last.Issuer.String() {
				last = c
				break
			}
		}
	}
	return clip(last.Issuer.String())
}

// Describe names a certificate, its end and its issuer.
func Describe(c *x509.Certificate) string {
	return fmt.Sprintf("of %s (until %s, issued by %s)", nameOf(c), c.NotAfter.UTC().Format(time.DateOnly),
		clip(c.Issuer.String()))
}

func nameOf(c *x509.Certificate) string {
	switch {
	case len(c.DNSNames) > 0:
		return clip(c.DNSNames[0])
	case len(c.IPAddresses) > 0:
		return c.IPAddresses[0].String()
	}
	return clip(c.Subject.String())
}

func clip(name string) string {
	if len(name) > maxName {
		name = name[:maxName] + "..."
	}
	return fmt.Sprintf("%q", name)
}
