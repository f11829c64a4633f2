package safehttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// RoundTripper makes an http.RoundTripper of Client.Do, for libraries that make requests by
// themselves, such as golang.org/x/oauth2. What Do forbids is an error for them, too. An answer is in
// memory when RoundTrip returns.
type RoundTripper func(*http.Request) (*Response, error)

// RoundTrip makes a request.
func (do RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := do(req)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: answer.Status, Status: fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.Header, Body: io.NopCloser(bytes.NewReader(answer.Body)), ContentLength: int64(len(answer.Body)), Request: req,
	}, nil
}
