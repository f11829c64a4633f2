package tlsfiles

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"
)

// ByACME is the key of a certificate that is ordered. Its "file" are the domains.
const ByACME = "acme"

// End is when a file of certificates stops being good.
type End struct {
	// Key is the key of the configuration, File its value.
	Key, File string
	// At is the end; zero if the file cannot be read, with Problem as the reason. With both, the
	// certificates of before are in use, and Problem says why those of the file are not.
	At      time.Time
	Problem string
}

// Ends returns when the files end: the gateway's own certificate with the first of its chain that
// does, the authorities with the last one.
func (f Files) Ends() (all []End) {
	for _, one := range []struct{ key, file string }{{"cert_file", f.Cert}, {"ca_file", f.CA}} {
		if one.file == "" {
			continue
		}
		certificates, err := readAll(one.file)
		e := endOf(one.key, one.file, certificates)
		if err != nil {
			e.Problem = err.Error()
		}
		all = append(all, e)
	}
	return all
}

// endOf returns when a file ends that has these certificates.
func endOf(key, file string, certificates []*x509.Certificate) End {
	e := End{Key: key, File: file}
	for _, c := range certificates {
		if e.At.IsZero() || c.NotAfter.Before(e.At) == (key == "cert_file" || key == ByACME) {
			e.At = c.NotAfter
		}
	}
	return e
}

// readAll reads the certificates of a file, at least one.
func readAll(path string) ([]*x509.Certificate, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCA))
	if err != nil {
		return nil, err
	}
	return parse(path, text)
}

// parse returns the certificates in the content of a file, at least one.
func parse(path string, text []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, certificate)
	}
	if all == nil {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return all, nil
}
