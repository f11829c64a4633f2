// Package http1 is an HTTP client for small requests over plain TCP. It is much cheaper than
// net/http's: an exchange runs on its caller's goroutine alone, and a request is written in one
// piece. Server is the other end, for clients that use this package.
//
// It owns the connections, their reuse, and the framing of HTTP/1.1 (RFC 9112), which it reads
// more strictly than net/http: ambiguous framing ends the connection, and so does every byte
// that no request asked for. It leaves TLS, HTTP/2, proxies, redirects, cookies, compression,
// upgrades and large request bodies to others; Handles says what it accepts. The client starts
// no goroutines; a timer closes connections that were idle for too long. The server has one for
// each request that takes long, and waits for it.
package http1
