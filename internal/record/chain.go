package record

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// The form of a line, from which a reader takes it apart without decoding it: it begins with
// seq and prev, and ends with hash, which is the SHA-256 of everything before it. An anchor
// of a chain with a key has its signature in front of hash: the HMAC-SHA256 of everything
// before that.
const (
	seqMember       = `{"seq":`
	prevMember      = `,"prev":"`
	chainMember     = `","chain":`
	signatureMember = `,"signature":"`
	hashMember      = `,"hash":"`
	lineEnd         = `"}`

	hexSize       = 2 * sha256.Size
	hashTail      = len(hashMember) + hexSize + len(lineEnd)
	signatureTail = len(signatureMember) + hexSize + 1
)

// AnchorEvery and AnchorAfter bound what stands between two anchors of a chain: the number of
// records, and the time from the first of them to the last.
const (
	AnchorEvery = 1000
	AnchorAfter = time.Minute
)

// Hash is the hash of a record.
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns String as text.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// ParseHash reads the output of Hash.String.
func ParseHash(text string) (h Hash, err error) {
	if len(text) != hexSize {
		return h, fmt.Errorf("a hash has %d hexadecimal digits", hexSize)
	}
	_, err = hex.Decode(h[:], []byte(text))
	return h, err
}

// Key signs anchors and keys digests of arguments, so that neither can be made up without it. A nil
// Key signs nothing.
type Key struct{ anchors, arguments []byte }

// NewKey derives the keys from a secret.
func NewKey(secret []byte) (*Key, error) {
	var k Key
	var err error
	if k.anchors, err = hkdf.Key(sha256.New, secret, nil, "gatehouse audit anchors", sha256.Size); err != nil {
		return nil, err
	}
	k.arguments, err = hkdf.Key(sha256.New, secret, nil, "gatehouse audit arguments", sha256.Size)
	return &k, err
}

// Arguments returns the digest of a call's arguments. Without a key, short arguments can be
// found out by trying.
func (k *Key) Arguments(text []byte) string {
	if k == nil {
		sum := sha256.Sum256(text)
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	mac := hmac.New(sha256.New, k.arguments)
	mac.Write(text)
	return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}

func (k *Key) sign(text []byte) Hash {
	mac := hmac.New(sha256.New, k.anchors)
	mac.Write(text)
	return Hash(mac.Sum(nil))
}

// Chain writes records so that each holds the hash of the one before. It is not safe for
// concurrent use; a copy of it is a place to go back to.
type Chain struct {
	// Name identifies the chain, of any length, among those of other replicas and sinks.
	Name string
	// Seq and Last are the number and the hash of the last record, zero at the beginning.
	Seq  uint64
	Last Hash
	// Unanchored is how many records follow the last anchor, Since the time of the first of them.
	Unanchored int
	Since      time.Time

	key *Key
}

// NewChain begins a chain; its anchors are signed if key is not nil.
func NewChain(name string, key *Key) Chain { return Chain{Name: name, key: key} }

// Follow continues another chain, perhaps with another key.
func (c *Chain) Follow(other Chain) { c.Name, c.Seq, c.Last = other.Name, other.Seq, other.Last }

// Append adds a record to the chain, and its line, with a line feed, to dst.
func (c *Chain) Append(dst []byte, r *Record) []byte {
	start := len(dst)
	c.Seq++
	dst = strconv.AppendUint(append(dst, seqMember...), c.Seq, 10)
	dst = hex.AppendEncode(append(dst, prevMember...), c.Last[:])
	dst = append(append(append(dst, chainMember...), '"'), c.Name...)
	dst = r.appendMembers(append(dst, '"'))
	if c.Unanchored++; c.Unanchored == 1 {
		c.Since = r.Time
	}
	if r.Kind == KindAnchor {
		c.Unanchored, c.Since = 0, time.Time{}
		if c.key != nil {
			signature := c.key.sign(dst[start:])
			dst = append(hex.AppendEncode(append(dst, signatureMember...), signature[:]), '"')
		}
	}
	c.Last = sha256.Sum256(dst[start:])
	dst = hex.AppendEncode(append(dst, hashMember...), c.Last[:])
	return append(append(dst, lineEnd...), '\n')
}

// Due reports whether an anchor has to stand in front of a record of that time. It goes by what the
// clock shows, as the check of a chain does.
func (c *Chain) Due(at time.Time) bool {
	return c.Unanchored >= AnchorEvery || c.Unanchored > 0 && at.Round(0).Sub(c.Since.Round(0)) >= AnchorAfter
}

// link is the place of a line in a chain, as the line has it.
type link struct {
	seq        uint64
	prev, hash Hash
	true       bool   // hash is that of the line
	signed     []byte // what the signature is about; nil without one
	signature  Hash
}

// linkOf takes a line apart. ok is false if it is no line of a chain.
func linkOf(line []byte) (l link, ok bool) {
	text, ok := bytes.CutPrefix(line, []byte(seqMember))
	if !ok || len(line) < hashTail {
		return l, false
	}
	body, tail := line[:len(line)-hashTail], line[len(line)-hashTail:]
	digits := bytes.IndexByte(text, ',')
	if digits < 0 {
		return l, false
	}
	seq, err := strconv.ParseUint(string(text[:digits]), 10, 64)
	if err != nil || !decode(&l.prev, text[digits:], prevMember) || !decode(&l.hash, tail, hashMember) ||
		string(tail[hashTail-len(lineEnd):]) != lineEnd {
		return l, false
	}
	l.seq, l.true = seq, sha256.Sum256(body) == l.hash
	if at := len(body) - signatureTail; at > 0 && body[len(body)-1] == '"' &&
		decode(&l.signature, body[at:], signatureMember) {
		l.signed = body[:at]
	}
	return l, true
}

// decode reads the hash after a member's name. It takes lower-case digits only: a hash does
// not cover its own digits, so these must have one form.
func decode(to *Hash, text []byte, member string) bool {
	digits, ok := bytes.CutPrefix(text, []byte(member))
	if !ok || len(digits) < hexSize || bytes.ContainsAny(digits[:hexSize], "ABCDEF") {
		return false
	}
	_, err := hex.Decode(to[:], digits[:hexSize])
	return err == nil
}

// Resume continues the chain of a line, which must be intact.
func (c *Chain) Resume(line []byte) error {
	l, ok := linkOf(line)
	name, _ := mcp.Raw(line).Member("chain")
	if !ok || !l.true || name.Text() == "" {
		return errors.New("the last line is not an intact record")
	}
	c.Name, c.Seq, c.Last = name.Text(), l.seq, l.hash
	return nil
}

// ResumeAnchor continues the chain of an anchor, which must be signed if the chain has a key.
func (c *Chain) ResumeAnchor(line []byte) error {
	a, err := ReadAnchor(line, c.key)
	if err == nil {
		c.Name, c.Seq, c.Last = a.Chain, a.Seq, a.Hash
	}
	return err
}

// Anchor is the state of a chain that an anchor records.
type Anchor struct {
	Chain string
	Seq   uint64
	Hash  Hash
}

// ReadAnchor reads the line of an anchor, which must be signed unless key is nil.
func ReadAnchor(line []byte, key *Key) (a Anchor, err error) {
	l, ok := linkOf(line)
	p := readAnchor(line)
	switch {
	case !ok || !l.true || p.kind != KindAnchor || p.chain == "":
		return a, errors.New("it holds no intact anchor")
	case key != nil && !l.signedBy(key):
		return a, errors.New("its anchor is not signed with this key")
	}
	return Anchor{p.chain, l.seq, l.hash}, nil
}

// signedBy reports whether the signature is that of a key.
func (l *link) signedBy(k *Key) bool {
	want := k.sign(l.signed)
	return l.signed != nil && hmac.Equal(want[:], l.signature[:])
}
