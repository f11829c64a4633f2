package mcptest

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"sync"
)

// Hang is a fault: no answer until the client gives up or the issuer is closed.
func Hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Status is a fault: an answer with this status and an empty object.
func Status(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, "{}")
	}
}

// Body is a fault: an answer with status 200 and this body.
func Body(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	}
}

// HTML is a fault: a page of a proxy or a sign-in page.
func HTML(w http.ResponseWriter, r *http.Request) {
	Body("text/html", "<!doctype html><title>Sign in</title>")(w, r)
}

// Redirect is a fault: 302 to another URL.
func Redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

// Huge is a fault: JSON of n bytes with a valid beginning.
func Huge(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"keys":[],"padding":"`)
		padding := bytes.Repeat([]byte{'x'}, 64<<10)
		for ; n > 0; n -= len(padding) {
			if _, err := w.Write(padding[:min(n, len(padding))]); err != nil {
				return // the client has read enough
			}
		}
		io.WriteString(w, `"}`)
	}
}

// Bomb is a fault: n bytes of spaces in JSON, in whole MiB, compressed whether the client
// asked for it or not. It sends the same compressed piece repeatedly, which costs the
// server little.
func Bomb(n int64) http.HandlerFunc {
	squeeze := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
		return b.Bytes()
	}
	parts := [][]byte{squeeze([]byte(`{"keys":[`))}
	spaces := squeeze(bytes.Repeat([]byte{' '}, 1<<20))
	for ; n > 0; n -= 1 << 20 {
		parts = append(parts, spaces)
	}
	bomb := bytes.Join(append(parts, squeeze([]byte(`]}`))), nil)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb)
	}
}

// fail runs a fault that ends with the issuer.
func (i *Issuer) fail(w http.ResponseWriter, r *http.Request, fault http.HandlerFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-i.done:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	fault(w, r.WithContext(ctx))
}
