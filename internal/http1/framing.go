package http1

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
)

var (
	errLength   = errors.New("http1: the answer's Content-Length is malformed or stands twice")
	errEncoding = errors.New("http1: the answer has a Transfer-Encoding that is not chunked, or stands twice")
	errFraming  = errors.New("http1: the answer has both Content-Length and Transfer-Encoding, or the latter in HTTP/1.0")
)

// framing says where the answer ends, by its header.
type framing struct {
	length  int64 // -1: nothing
	chunked bool
	close   bool // the connection ends with the answer
}

func (f *framing) read(name, value string) error {
	switch name {
	case "Content-Length":
		if f.length >= 0 {
			return errLength
		}
		for i := range len(value) {
			if value[i] < '0' || value[i] > '9' {
				return errLength
			}
		}
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return errLength
		}
		f.length = int64(n)
	case "Transfer-Encoding":
		if f.chunked || !strings.EqualFold(value, "chunked") {
			return errEncoding
		}
		f.chunked = true
	case "Connection":
		for option := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.Trim(option, " \t"), "close") {
				f.close = true
			}
		}
	}
	return nil
}

// check refuses answers with an end that two readers could see in two places (RFC 9112 §6.3).
func (f *framing) check(minor int) error {
	if f.chunked && (f.length >= 0 || minor == 0) {
		return errFraming
	}
	return nil
}

// frame sets how the body ends (RFC 9112 §6.3), and whether the connection ends with it.
func (f *framing) frame(resp *http.Response, b *body) {
	resp.Close = resp.Close || f.close
	method, status := resp.Request.Method, resp.StatusCode
	switch {
	case method == http.MethodHead:
		b.kind, resp.ContentLength = none, f.length
	case status == http.StatusNotModified:
		b.kind = none
	case status == http.StatusNoContent:
		b.kind = none
		resp.Close = resp.Close || f.chunked || f.length > 0 // it may have a body all the same
	case f.chunked:
		b.kind, resp.ContentLength = chunked, -1
		resp.TransferEncoding = []string{"chunked"}
	case f.length == 0:
		b.kind = none
	case f.length > 0:
		b.kind, b.left, resp.ContentLength = counted, f.length, f.length
	default:
		b.kind, b.left, resp.ContentLength = untilEnd, math.MaxInt64, -1
		resp.Close = true
	}
	b.again = !resp.Close
}
