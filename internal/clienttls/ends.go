package clienttls

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"
)

// End is when a file of certificates stops being good.
type End struct {
	// Key is the key of the configuration, File its value.
	Key, File string
	// At is the end; zero if the file cannot be read, with Problem as the reason.
	At      time.Time
	Problem string
}

// Ends returns when the files end: the gateway's own certificate with the first of its chain that
// does, the authorities with the last one.
func (f Files) Ends() (all []End) {
	for _, one := range []struct {
		key, file string
		sooner    bool
	}{{"cert_file", f.Cert, true}, {"ca_file", f.CA, false}} {
		if one.file == "" {
			continue
		}
		e := End{Key: one.key, File: one.file}
		certificates, err := readAll(one.file)
		if err != nil {
			e.Problem = err.Error()
		}
		for _, c := range certificates {
			if e.At.IsZero() || c.NotAfter.Before(e.At) == one.sooner {
				e.At = c.NotAfter
			}
		}
		all = append(all, e)
	}
	return all
}

// readAll reads the certificates of a file, at least one.
func readAll(path string) (all []*x509.Certificate, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCA))
	if err != nil {
		return nil, err
	}
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
