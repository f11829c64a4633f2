package http1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

var errBody = errors.New("http1: the request's body is shorter than its length")

// appendRequest writes a request, head and body. It refuses anything that could end a line or
// the head early.
func appendRequest(dst []byte, req *http.Request) ([]byte, error) {
	method, target, host := req.Method, req.URL.RequestURI(), req.Host
	if method == "" {
		method = http.MethodGet
	}
	if host == "" {
		host = req.URL.Host
	}
	if !isToken(method) || method == http.MethodConnect {
		return dst, fmt.Errorf("http1: method %.20q", method)
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] >= 0x7f {
			return dst, fmt.Errorf("http1: the URL has byte %#x at %d", target[i], i)
		}
	}
	dst = append(append(dst, method...), ' ')
	dst = append(append(dst, target...), " HTTP/1.1\r\nHost: "...)
	dst = append(dst, host...)
	for name, values := range req.Header {
		if !isToken(name) {
			return dst, fmt.Errorf("http1: header name %.40q", name)
		}
		if isFraming(name) {
			return dst, fmt.Errorf("http1: header %s is not for callers", name)
		}
		for _, value := range values {
			if !isFieldValue(value) { // which may be a secret
				return dst, fmt.Errorf("http1: header %s has a value with control characters", name)
			}
			dst = append(append(dst, "\r\n"...), name...)
			dst = append(append(dst, ": "...), value...)
		}
	}
	if req.Close {
		dst = append(dst, "\r\nConnection: close"...)
	}
	length := int(req.ContentLength)
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		dst = strconv.AppendInt(append(dst, "\r\nContent-Length: "...), req.ContentLength, 10)
	default:
		if length > 0 {
			dst = strconv.AppendInt(append(dst, "\r\nContent-Length: "...), req.ContentLength, 10)
		}
	}
	dst = append(dst, "\r\n\r\n"...)
	if length == 0 {
		return dst, nil
	}
	head := len(dst)
	dst = slices.Grow(dst, length)[:head+length]
	if _, err := io.ReadFull(req.Body, dst[head:]); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errBody
		}
		return dst, err
	}
	return dst, nil
}

// isFraming reports whether a header field is about the connection or the end of a message:
// only this package writes those.
func isFraming(name string) bool {
	for _, framing := range [...]string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Proxy-Connection",
		"Keep-Alive", "Te", "Trailer", "Upgrade", "Expect"} {
		if len(name) == len(framing) && strings.EqualFold(name, framing) { // a token is ASCII
			return true
		}
	}
	return false
}

// tokens are the characters of a token below 64 and from there on (RFC 9110 §5.6.2).
const (
	tokensLow = 1<<'!' | 1<<'#' | 1<<'$' | 1<<'%' | 1<<'&' | 1<<'\'' | 1<<'*' | 1<<'+' | 1<<'-' | 1<<'.' |
		(1<<10-1)<<'0'
	tokensHigh = (1<<26-1)<<('A'-64) | 1<<('^'-64) | 1<<('_'-64) | 1<<('`'-64) |
		(1<<26-1)<<('a'-64) | 1<<('|'-64) | 1<<('~'-64)
)

func isToken[T string | []byte](s T) bool {
	for i := range len(s) {
		c := s[i]
		if c < 64 && uint64(tokensLow)>>c&1 == 0 || c >= 64 && uint64(tokensHigh)>>(c-64)&1 == 0 {
			return false // a shift by 64 or more leaves nothing
		}
	}
	return len(s) > 0
}

// isFieldValue reports whether a header field may have a value (RFC 9110 §5.5).
func isFieldValue[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isHost reports whether a host, with a port or not, needs no translation and ends no
// line: a name of letters, digits and a few marks, or an address without a zone.
func isHost(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '.', c == '-', c == '_', c == ':', c == '[', c == ']':
		default:
			return false
		}
	}
	return len(s) > 0
}
