package restore

import (
	"crypto/rand"
	"strings"
	"sync"
)

// maxPages bounds the ids that are kept.
const maxPages = 100

// Pages are the URLs that the user was sent to, the oldest first. Their ids are replaced by
// ours: a client must not mix up those of two servers, and what a server says is done must
// be something that it asked this client.
type Pages struct {
	mu  sync.Mutex // guards all
	all []*page
}

type page struct {
	native, minted string
	request        int64         // in whose course the server asked
	done           chan struct{} // closed when the server says that the user is done
}

// Mint returns our id for one of the server's, which asked in the course of a request. One
// without an id gets a new one.
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

// Complete notes that the user is done at a page of the server's id, and returns ours and
// the request in whose course the server asked. ok is false for a page that is not known, or
// was done with before.
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

// Done returns what is closed when the user is done at a page of our id, nil for a page that
// is not known.
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
