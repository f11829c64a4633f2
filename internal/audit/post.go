package audit

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/retryafter"
)

const (
	// partBytes is how many bytes of lines are sent in one request, unless one is longer.
	partBytes = 1 << 20
	// answerBytes bounds what is read of an answer.
	answerBytes = 64 << 10
	// retryAfterMost bounds what Retry-After may ask for.
	retryAfterMost = time.Minute
)

// poster sends batches by HTTP POST, in parts of about partBytes. It follows no redirects and
// uses no proxy.
type poster struct {
	url    string
	header http.Header
	client *http.Client
	// transport is that of the client.
	transport *http.Transport
	// body adds the body for some entries; sign adds headers that depend on it.
	body func(to []byte, part []entry) []byte
	sign func(to http.Header, body []byte, last entry)
	// lost reads in a successful answer how many records were not taken, and why. Nil if answers do
	// not say so.
	lost func(answer []byte) (n int64, why string)

	sent progress
	text []byte
}

func newPoster(s Sink, contentType string) (*poster, error) {
	p := &poster{url: s.URL, header: http.Header{"Content-Type": {contentType}, "User-Agent": {mcp.UserAgent()}}}
	for name, value := range s.Headers {
		p.header.Set(name, string(value))
	}
	certificates := &tls.Config{MinVersion: tls.VersionTLS12}
	if strings.HasPrefix(s.URL, "https:") {
		var err error
		if certificates, err = s.certificates().Config(); err != nil {
			return nil, err
		}
	}
	p.transport = &http.Transport{
		TLSClientConfig: certificates, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: answerBytes, IdleConnTimeout: time.Minute,
	}
	p.client = &http.Client{
		Timeout:       s.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     p.transport,
	}
	return p, nil
}

// reconnect lets the next request take a new connection: one of HTTP/2 that hangs would be used
// again. The old ones are closed when they have been idle for a while.
func (p *poster) reconnect() {
	old := p.transport
	p.transport = old.Clone()
	p.client.Transport = p.transport
	old.CloseIdleConnections()
}

func (p *poster) ready(context.Context, *record.Chain) (head, error) { return head{}, nil }

// write sends all entries, part by part.
func (p *poster) write(ctx context.Context, entries []entry) error {
	entries = p.sent.rest(entries)
	var some *refusal
	for len(entries) > 0 {
		size, n := len(entries[0].line), 1
		for n < len(entries) && size+len(entries[n].line) <= partBytes {
			size += len(entries[n].line)
			n++
		}
		err := p.post(ctx, entries[:n])
		if why, ok := errors.AsType[*refusal](err); ok && why.taken {
			if some != nil {
				why.lost += some.lost
			}
			some, err = why, nil
		}
		if err != nil {
			return err
		}
		p.sent.took(entries[n-1])
		entries = entries[n:]
	}
	p.sent.done()
	if some != nil {
		return some
	}
	return nil
}

// post sends one part.
func (p *poster) post(ctx context.Context, part []entry) error {
	p.text = p.body(p.text[:0], part)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.text))
	if err != nil {
		return errors.New("the URL cannot be used") // it may hold a secret
	}
	req.Header = p.header.Clone()
	if p.sign != nil {
		p.sign(req.Header, p.text, part[len(part)-1])
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.reconnect()
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the URL
		}
		return err
	}
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, answerBytes)) // the status alone says what became of it
	resp.Body.Close()
	if cap(p.text) > keptText {
		p.text = nil
	}
	if resp.StatusCode/100 == 2 {
		if p.lost == nil {
			return nil
		}
		if n, why := p.lost(answer); n > 0 {
			return &refusal{err: fmt.Errorf("the receiver has not taken %d records: %s", n, why), taken: true, lost: n}
		}
		return nil
	}
	return &refusal{
		err:   fmt.Errorf("the receiver answers with HTTP status %d", resp.StatusCode),
		after: retryafter.Read(resp.Header, time.Now(), retryAfterMost),
		final: unacceptable(resp.StatusCode),
	}
}

// unacceptable reports whether a status is about the records themselves, so that sending them
// again cannot help.
func unacceptable(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		return true
	}
	return false
}

func (p *poster) settle() error { return nil }

func (p *poster) close() error {
	p.client.CloseIdleConnections()
	return nil
}

// headerName matches what may be a header.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// headerProblems reports headers that cannot be sent, and a bad secret for signatures.
func (s Sink) headerProblems() (found problems.List) {
	for name, value := range s.Headers {
		switch lower := strings.ToLower(name); {
		case !headerName.MatchString(name):
			found.Add("headers: %q is not the name of a header", name)
		case lower == "host" || lower == "content-type" || lower == "content-length" || lower == "transfer-encoding" ||
			lower == "connection" || strings.HasPrefix(lower, "webhook-"):
			found.Add("headers[%s]: the gateway sets it", name)
		case strings.ContainsFunc(string(value), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			found.Add("headers[%s]: has control characters", name)
		}
	}
	if s.Sign != "" {
		_, err := signingKey(s.Sign)
		found.At("sign", err)
	}
	return found
}
