package stream

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Prefixes of stream names, one for each kind of stream.
const (
	ofCall    = "c-" // it ends with the response
	ofSession = "g-" // of a GET: it ends with the session
)

const (
	maxEventID = 200 // bytes
	// maxNamed is the longest request id, in bytes, that a stream's name contains.
	maxNamed = 64
	markSize = 5 // bytes
)

// nameText is the encoding of the parts of stream names.
var nameText = base32.HexEncoding.WithPadding(base32.NoPadding)

// SessionName is the name of a GET stream of a session. The id is one of Front.callID.
func SessionName(id string) string { return ofSession + id }

// CallName is the name of the stream of a call. It contains the request's id, so that any
// replica can answer a client that comes back for an answer which is not kept any more. key is
// the session's key.
func CallName(key, callID string, id mcp.Raw) string {
	name := ofCall + callID
	if len(id) > maxNamed {
		return name
	}
	return name + "-" + strings.ToLower(nameText.EncodeToString(append(nameMark(key, name), id...)))
}

// nameMark proves that a name was given out to a session.
func nameMark(key, name string) []byte {
	sum := sha256.Sum256([]byte(key + " " + name))
	return sum[:markSize]
}

// RequestOf returns the id of the request with a stream of this name; nil if the name was not given
// out to this session.
func RequestOf(key, name string) mcp.Raw {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return nil
	}
	marked, err := nameText.DecodeString(strings.ToUpper(name[at+1:]))
	if err != nil || len(marked) <= markSize || !bytes.Equal(marked[:markSize], nameMark(key, name[:at])) {
		return nil
	}
	return marked[markSize:]
}

// CallOf returns the id of the call with a stream of this name: the replica that serves it, "-" and
// a number.
func CallOf(name string) string {
	parts := strings.SplitN(strings.TrimPrefix(name, ofCall), "-", 3)
	return strings.Join(parts[:min(len(parts), 2)], "-")
}

// EventID is the id of an event, unique over all streams of a session (2025-11-25
// basic/transports#resumability-and-redelivery).
func EventID(stream string, seq uint64) string {
	return stream + "." + strconv.FormatUint(seq, 10)
}

// Position is a place in a stream; the zero value is none.
type Position struct {
	Name string // of the stream
	Seq  uint64
}

// ParseEventID is the reverse of EventID. ok is false if an id cannot be one of ours.
func ParseEventID(id string) (p Position, ok bool) {
	name, digits, _ := strings.Cut(id, ".")
	seq, err := strconv.ParseUint(digits, 10, 64)
	foreign := func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	p = Position{name, seq}
	if err != nil || len(id) > maxEventID || EventID(name, seq) != id ||
		!p.IsCall() && !strings.HasPrefix(name, ofSession) || strings.ContainsFunc(name, foreign) {
		return Position{}, false
	}
	return p, true
}

// IsCall reports whether the stream is that of a call.
func (p Position) IsCall() bool { return strings.HasPrefix(p.Name, ofCall) }
