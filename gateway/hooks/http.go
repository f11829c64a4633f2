package hooks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// moreBytes bounds the excess of an answer over the size of the content.
const moreBytes = 64 << 10

// remote has a service of the operator judge content. It follows no redirects and uses no proxy. It
// speaks HTTP/1.1: a connection that hangs is given up, and takes no other request along.
type remote struct {
	url    string
	header http.Header
	most   int64
	open   bool // what it cannot judge passes
	client *http.Client
}

func newRemote(c HTTP) (*remote, error) {
	r := &remote{
		url: c.URL, most: cmp.Or(c.MaxBytes, defaultBytes), open: c.OnFailure == Passed,
		header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"},
			"User-Agent": {mcp.UserAgent()}},
	}
	for name, value := range c.Headers {
		r.header.Set(name, string(value))
	}
	certificates := &tls.Config{MinVersion: tls.VersionTLS12}
	if strings.HasPrefix(c.URL, "https:") {
		var err error
		if certificates, err = c.certificates().Config(); err != nil {
			return nil, fmt.Errorf("http: %w", err)
		}
	}
	r.client = &http.Client{
		Timeout:       cmp.Or(c.Timeout, defaultTimeout),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig: certificates, MaxResponseHeaderBytes: moreBytes,
			IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 100,
		},
	}
	return r, nil
}

func (r *remote) look(ctx context.Context, c *mcp.Call, p piece) (mcp.Raw, action, string) {
	out, did, why, err := r.ask(ctx, c, p)
	switch {
	case err == nil:
		return out, did, why
	case r.open:
		return p.value, failedOpen, err.Error()
	}
	return nil, failed, err.Error()
}

// ask asks about a piece.
func (r *remote) ask(ctx context.Context, c *mcp.Call, p piece) (out mcp.Raw, did action, why string, err error) {
	if size := int64(len(p.value)); size > r.most {
		return nil, 0, "", fmt.Errorf("the content has %d bytes, more than max_bytes", size)
	} else if size > mcp.CountedBytes {
		if !c.Room.Take(2 * size) { // for the question and the answer
			return nil, 0, "", errors.New("the gateway has no room for the content")
		}
		defer c.Room.Give(2 * size)
	}
	answer, err := r.post(ctx, document(c, p))
	if err != nil {
		return nil, 0, "", err
	}
	switch answer.At("action").Text() {
	case "pass":
		return p.value, passed, "", nil
	case "refuse":
		return nil, refused, cmp.Or(clean(answer.At("reason").Text()), defaultReason), nil
	case "change":
		content := answer.At("content")
		switch {
		case p.fixed:
			return nil, 0, "", errors.New("the service changes what cannot be changed")
		case !content.IsObject():
			return nil, 0, "", errors.New("the service changes the content to what is no object")
		}
		return bytes.Clone(content), changed, "", nil
	}
	return nil, 0, "", errors.New("the service says neither pass, change nor refuse")
}

// document returns the request body for the service.
func document(c *mcp.Call, p piece) mcp.Raw {
	target := mcp.Object("kind", mcp.String(c.Target.Kind), "upstream", mcp.String(c.Target.Upstream), "name",
		mcp.String(c.Target.Name))
	if c.Target.File != "" {
		target = target.With("file", mcp.String(c.Target.File))
	}
	caller := mcp.Object("issuer", mcp.String(c.Caller.Issuer), "user", mcp.String(c.Caller.Subject),
		"groups", mcp.Strings(c.Caller.Groups), "client", mcp.String(c.Caller.ClientID))
	content := p.value
	if content == nil {
		content = mcp.Raw("null")
	}
	return mcp.Object("on", mcp.String(p.on), "kind", mcp.String(p.kind), "call", mcp.String(c.ID),
		"method", mcp.String(c.Method), "target", target, "caller", caller, "content", content)
}

// post sends a document and returns the answer, an object. Its errors show neither the URL, which
// may hold a secret, nor the content.
func (r *remote) post(ctx context.Context, body mcp.Raw) (mcp.Raw, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL cannot be used")
	}
	req.Header = r.header.Clone()
	resp, err := r.client.Do(req)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the service answers with HTTP status %d", resp.StatusCode)
	}
	most := int64(len(body)) + r.most + moreBytes
	text, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > most:
		return nil, fmt.Errorf("the answer of the service is longer than %d bytes", most)
	}
	answer, err := wire.TextObject(string(text))
	if err != nil {
		return nil, errors.New("the service answers with what is no JSON object")
	}
	return answer, nil
}

func (r *remote) close() { r.client.CloseIdleConnections() }

// clean makes a service's text safe to show: short, on one line, of printable characters.
func clean(text string) string {
	text = strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, text))
	if len(text) <= maxText {
		return text
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
