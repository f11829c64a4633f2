package front

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxNamed is the longest request id, in bytes, that stands in the name of a call's
	// stream.
	maxNamed = 64
	markSize = 5 // bytes
)

// nameText writes what stands in names of streams.
var nameText = base32.HexEncoding.WithPadding(base32.NoPadding)

// callStreamName is the name of the stream of a call. It holds the request's id, so that
// whoever comes back for an answer that is not kept any more can be told so, by any
// replica.
func callStreamName(key, callID string, id mcp.Raw) string {
	name := callStream + callID
	if len(id) > maxNamed {
		return name
	}
	return name + "-" + strings.ToLower(nameText.EncodeToString(append(nameMark(key, name), id...)))
}

// nameMark shows that a name was given out to a session.
func nameMark(key, name string) []byte {
	sum := sha256.Sum256([]byte(key + " " + name))
	return sum[:markSize]
}

// requestOf returns the id of the request whose stream has this name, nil where the name
// was not given out to this session.
func requestOf(key, name string) mcp.Raw {
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

// callOf returns the id of the call whose stream has this name.
func callOf(name string) string {
	parts := strings.SplitN(strings.TrimPrefix(name, callStream), "-", 3)
	return strings.Join(parts[:min(len(parts), 2)], "-")
}
