package streamable

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// decode undoes the coding of an answer that the server, or a proxy before it, compressed although
// it was asked not to. The limits of all readers count what comes out. An error page that is coded
// otherwise becomes an empty one. Errors: transport.ErrGarbage.
func decode(resp *http.Response) error {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header["Content-Encoding"], ",")))
	if coding == "" || coding == "identity" || resp.ContentLength == 0 {
		return nil
	}
	plain := codings[coding]
	switch {
	case plain != nil:
		resp.Body = &decoder{coded: resp.Body, open: plain}
	case resp.StatusCode/100 == 2:
		resp.Body.Close()
		return transport.Garbage("content coding %.40q, where only gzip and deflate are understood", coding)
	default:
		resp.Body.Close()
		resp.Body = http.NoBody
	}
	resp.ContentLength = -1
	return nil
}

var codings = map[string]func(*bufio.Reader) (io.Reader, error){"gzip": unzip, "x-gzip": unzip, "deflate": inflate}

func unzip(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) }

// inflate reads deflate, which many servers send without the wrapping that it should have
// (RFC 9110 8.4.1.2).
func inflate(r *bufio.Reader) (io.Reader, error) {
	head, err := r.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0xf == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// decoder is a body without its coding.
type decoder struct {
	coded io.ReadCloser
	open  func(*bufio.Reader) (io.Reader, error)
	plain io.Reader // nil before the first Read: the head of a stream may be there long before it
	err   error     // of opening it
}

func (d *decoder) Read(p []byte) (n int, err error) {
	if d.plain == nil {
		d.plain, d.err = d.open(bufio.NewReader(d.coded))
	}
	if err = d.err; err == nil {
		n, err = d.plain.Read(p)
	}
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zlib.ErrHeader) ||
		errors.Is(err, zlib.ErrChecksum) || errors.As(err, &corrupt) {
		err = transport.Garbage("its content coding: %v", err)
	}
	return n, err
}

func (d *decoder) Close() error { return d.coded.Close() }
