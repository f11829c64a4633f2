package restore

import (
	"crypto/rand"
	"strings"
	"sync"
)

// maxPages bounds the stored ids.
const maxPages = 100

// Pages are the URLs that the user was sent to, the oldest first. Their ids are replaced by
// our own, so that a client cannot confuse the ids of two servers, and so that a server can
// only report pages as done that it asked this client to open.
type Pages struct {
	mu  sync.Mutex // guards all
	all []*page
}

type page struct {
	native, minted string
	request        int64         // the request during which the server asked
	done           chan struct{} // closed when the server says that the user is done
}

// Mint returns our id for a server's id, and records the request during which the server
// asked. A page without an id gets a new one.
func (p *Pages) Mint(native string, request int64) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.all {
		if native != "" && known.native == native {
			known.request = request
			return known.minted
		}
	}
	if len(p.all) == maxPages {
		p.all = append(p.all[:0:0], p.all[1:]...)
	}
	id = "e-" + strings.ToLower(rand.Text())
	p.all = append(p.all, &page{native: native, minted: id, request: request, done: make(chan struct{})})
	return id
}

// Complete records that the user is done at the page with the server's id. It returns our
// id and the request during which the server asked. ok is false for a page that is unknown
// or already done.
func (p *Pages) Complete(native string) (id string, request int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.all {
		if native == "" || known.native != native {
			continue
		}
		select {
		case <-known.done:
			return "", 0, false
		default:
			close(known.done)
			return known.minted, known.request, true
		}
	}
	return "", 0, false
}

// Done returns a channel that is closed when the user is done at a page, by our id; nil for an
// unknown page.
func (p *Pages) Done(id string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.all {
		if known.minted == id {
			return known.done
		}
	}
	return nil
}
