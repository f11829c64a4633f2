package streamable

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxCookies bounds what is kept of one session, in bytes.
const maxCookies = 4 << 10

// cookies are those that a server, or the balancer before it, has set in one session. They go back
// with the requests of that session alone, which are all for the origin that set them, and end with
// it. Nil keeps none.
type cookies struct {
	line atomic.Pointer[string] // as the header Cookie has them; nil for none

	mu  sync.Mutex // guards all
	all []*http.Cookie
}

// keptCookies returns cookies as text returned them.
func keptCookies(text string) *cookies {
	k := &cookies{}
	k.all, _ = http.ParseCookie(text) // what cannot be read is lost
	k.write()
	return k
}

func (k *cookies) text() string {
	if k == nil || k.line.Load() == nil {
		return ""
	}
	return *k.line.Load()
}

// in returns a request's header with the cookies; the header is not changed.
func (k *cookies) in(header http.Header) http.Header {
	text := k.text()
	if text == "" {
		return header
	}
	header = header.Clone()
	header["Cookie"] = []string{text}
	return header
}

// take keeps what an answer sets, and forgets what it ends. What is too much is not kept.
func (k *cookies) take(resp *http.Response) {
	if k == nil || resp.Header["Set-Cookie"] == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range resp.Cookies() {
		k.all = slices.DeleteFunc(k.all, func(known *http.Cookie) bool { return known.Name == c.Name })
		if over := c.MaxAge < 0 || c.MaxAge == 0 && !c.Expires.IsZero() && c.Expires.Before(time.Now()); over {
			k.write()
			continue
		}
		k.all = append(k.all, &http.Cookie{Name: c.Name, Value: c.Value, Quoted: c.Quoted})
		if k.write(); len(k.text()) > maxCookies {
			k.all = k.all[:len(k.all)-1]
			k.write()
		}
	}
}

// write makes the line. mu is held, or only the caller knows k.
func (k *cookies) write() {
	parts := make([]string, len(k.all))
	for i, c := range k.all {
		parts[i] = c.String()
	}
	text := strings.Join(parts, "; ")
	k.line.Store(&text)
}
