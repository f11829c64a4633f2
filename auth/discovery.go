package auth

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// Client makes HTTP requests to one issuer; see safehttp.Client.
type Client interface {
	Do(*http.Request) (*safehttp.Response, error)
	// Peer returns the certificate that the issuer has shown last, nil for none.
	Peer() *x509.Certificate
	Close()
}

// metadata is the part of an issuer's metadata that the gateway uses.
type metadata struct {
	jwks       string
	introspect string
}

// statusError is an answer with a status other than 200.
type statusError struct{ status int }

func (e *statusError) Error() string { return "HTTP " + strconv.Itoa(e.status) }

// discover reads the metadata of an issuer, by OpenID Connect Discovery 1.0 §4 or RFC 8414 §3.
func discover(ctx context.Context, client Client, issuer string) (metadata, error) {
	body, err := document(ctx, client, issuer)
	if err != nil {
		return metadata{}, err
	}
	return parseMetadata(body, issuer)
}

// document fetches the metadata of an issuer.
func document(ctx context.Context, client Client, issuer string) ([]byte, error) {
	var errs []error
	for _, at := range metadataURLs(issuer) {
		body, _, err := get(ctx, client, at)
		var wrong *statusError
		if errors.As(err, &wrong) && wrong.status/100 == 4 {
			errs = append(errs, err)
			continue // it has none here
		}
		if err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
		if !json.Valid(body) { // such as a page for people
			errs = append(errs, fmt.Errorf("%s has no JSON", at))
			continue
		}
		return body, nil
	}
	return nil, fmt.Errorf("metadata: %w", errs[0])
}

func metadataURLs(issuer string) []string {
	base := strings.TrimSuffix(issuer, "/")
	urls := []string{base + "/.well-known/openid-configuration"}
	if u, err := url.Parse(base); err == nil {
		origin := u.Scheme + "://" + u.Host
		urls = append(urls, origin+"/.well-known/oauth-authorization-server"+strings.TrimPrefix(base, origin))
	}
	return urls
}

// ownDocument refuses the metadata of another issuer (RFC 8414 §3.3): keys of one would then verify
// tokens of the other. No member that is read may be there twice.
func ownDocument(body []byte, issuer string, read ...string) (mcp.Raw, error) {
	doc, err := parseObject(body, append(read, "issuer")...)
	if err != nil {
		return nil, fmt.Errorf("the metadata cannot be read: %w", err)
	}
	if name, _ := member(doc, "issuer"); !mcp.SameIdentifier(name, issuer) {
		return nil, fmt.Errorf("the metadata are of another issuer: %.100q", name)
	}
	return doc, nil
}

func parseMetadata(body []byte, issuer string) (metadata, error) {
	doc, err := ownDocument(body, issuer, "jwks_uri", "introspection_endpoint")
	if err != nil {
		return metadata{}, err
	}
	var m metadata
	if m.jwks, err = endpoint(doc, "jwks_uri"); err != nil {
		return metadata{}, err
	}
	if m.introspect, err = endpoint(doc, "introspection_endpoint"); err != nil {
		return metadata{}, err
	}
	return m, nil
}

// endpoint returns a member that is a URL, "" if there is none. The client checks the URL's
// address when it connects.
func endpoint(doc mcp.Raw, name string) (string, error) {
	value, has := doc.Member(name)
	if !has || value.IsNull() {
		return "", nil
	}
	at, ok := plainText(value)
	if !ok || checkURL(at) != nil {
		return "", fmt.Errorf("the metadata's %s is not a URL that may be asked", name)
	}
	return at, nil
}

// get fetches JSON, and returns how long it may be cached: 0 if the answer does not say.
func get(ctx context.Context, client Client, at string) (body []byte, keep time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, 0, errors.New("not a URL")
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	if resp.Status != http.StatusOK {
		return nil, 0, &statusError{resp.Status}
	}
	return resp.Body, maxAge(resp.Header), nil
}

// maxAge is max-age of Cache-Control, 0 without one. For an answer that must not be cached,
// it is the smallest positive duration.
func maxAge(h http.Header) time.Duration {
	for _, line := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch strings.ToLower(name) {
			case "no-store", "no-cache":
				return 1
			case "max-age":
				if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
					return max(1, time.Duration(seconds)*time.Second)
				}
			}
		}
	}
	return 0
}
