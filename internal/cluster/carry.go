package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// carriedHeader is the header that a forward adds to the request. It names the caller and
	// the home. It has a meaning only in requests from replicas.
	carriedHeader = "Gatehouse-Forward"
	// maxLate is how far a forward's number may lag behind the newest number of its sender.
	maxLate = 8192
	// maxSenders bounds the replicas with numbers that are remembered until this process ends.
	// Forwards of further replicas are refused.
	maxSenders = 4096
	numberSize = 8
)

// errCarried means that no replica sealed this header for this request here, or that the forward is
// a repetition.
var errCarried = errors.New("cluster: the forward is not sealed for this request, or came before")

// carried seals what a forward carries, with sessions.key. The seal binds it to the sender,
// the receiver, the request and a number that is valid once.
type carried struct {
	key  *seal.Key
	self string
	sent atomic.Uint64 // the newest number

	mu      sync.Mutex // guards senders and their windows
	senders map[string]*window
}

func newCarried(self string, secret []byte, accepted [][]byte) (*carried, error) {
	key, err := seal.NewKey(secret, "forward", accepted...)
	if err != nil {
		return nil, fmt.Errorf("cluster: key: %w", err)
	}
	return &carried{key: key, self: self, senders: make(map[string]*window)}, nil
}

// write returns the value of carriedHeader for a request to another replica.
func (c *carried) write(to string, r *http.Request, home string, caller []byte) string {
	plain := appendCarried(nil, c.sent.Add(1), home, caller)
	return c.key.Seal(plain, c.self, to, r.Method, r.URL.RequestURI(), strconv.FormatInt(r.ContentLength, 10))
}

// read opens the value of carriedHeader. Errors: errCarried.
func (c *carried) read(from string, r *http.Request) (home string, caller []byte, err error) {
	values := r.Header[carriedHeader]
	if len(values) != 1 {
		return "", nil, errCarried
	}
	plain, err := c.key.Open(values[0], from, c.self, r.Method, r.RequestURI, strconv.FormatInt(r.ContentLength, 10))
	if err != nil {
		return "", nil, errCarried
	}
	number, home, caller, err := parseCarried(plain)
	if err != nil || !c.first(from, number) {
		return "", nil, errCarried
	}
	return home, caller, nil
}

// appendCarried appends the plain text: the number, the length of the home, the home, and the
// caller.
func appendCarried(dst []byte, number uint64, home string, caller []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, number)
	dst = binary.AppendUvarint(dst, uint64(len(home)))
	return append(append(dst, home...), caller...)
}

func parseCarried(plain []byte) (number uint64, home string, caller []byte, err error) {
	if len(plain) < numberSize {
		return 0, "", nil, errCarried
	}
	number, plain = binary.BigEndian.Uint64(plain), plain[numberSize:]
	size, n := binary.Uvarint(plain)
	if n <= 0 || size > uint64(len(plain)-n) {
		return 0, "", nil, errCarried
	}
	return number, string(plain[n : n+int(size)]), plain[n+int(size):], nil
}

// first reports whether this is the first forward of a sender with this number.
func (c *carried) first(sender string, number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.senders[sender]
	if w == nil {
		if len(c.senders) >= maxSenders {
			return false
		}
		w = &window{}
		c.senders[sender] = w
	}
	return w.first(number)
}

// window records which numbers of a sender were received. Numbers that are maxLate or more
// behind the newest count as received. Numbers begin at 1.
type window struct {
	newest uint64
	seen   [maxLate / 64]uint64 // a ring of bits
}

func (w *window) first(number uint64) bool {
	if number == 0 || w.newest >= maxLate && number <= w.newest-maxLate {
		return false
	}
	for w.newest < number {
		if number-w.newest >= maxLate { // all earlier numbers fall out of the window
			w.newest, w.seen = number, [maxLate / 64]uint64{}
			break
		}
		w.newest++
		w.seen[w.newest%maxLate/64] &^= 1 << (w.newest % 64)
	}
	bit := uint64(1) << (number % 64)
	at := &w.seen[number%maxLate/64]
	if *at&bit != 0 {
		return false
	}
	*at |= bit
	return true
}
