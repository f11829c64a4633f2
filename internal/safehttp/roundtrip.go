package safehttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// RoundTripper makes an http.RoundTripper of Client.Do, for libraries that make requests by
// themselves, such as golang.org/x/oauth2. What Do forbids is an error for them, too. An answer is in
// memory when RoundTrip returns, with expires_in as that library reads it.
type RoundTripper func(*http.Request) (*Response, error)

// RoundTrip makes a request.
func (do RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := do(req)
	if err != nil {
		return nil, err
	}
	body := wholeSeconds(answer.Body)
	return &http.Response{
		StatusCode: answer.Status, Status: fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.Header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

// wholeSeconds returns the answer of a token endpoint with an integer as expires_in. Some servers write
// 3600.0; what is no time at all is left out.
func wholeSeconds(body []byte) []byte {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil || answer["expires_in"] == nil {
		return body
	}
	text := strings.Trim(string(answer["expires_in"]), `"`)
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return body
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 {
		answer["expires_in"] = strconv.AppendInt(nil, int64(min(seconds, math.MaxInt32)), 10)
	} else {
		delete(answer, "expires_in")
	}
	whole, err := json.Marshal(answer)
	if err != nil {
		return body
	}
	return whole
}
