package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxLine bounds a line, in bytes.
	maxLine = 4 << 20
	// maxFindings bounds what is remembered of a chain that is wrong throughout.
	maxFindings = 100
	// grace is how much longer than AnchorAfter a stretch without an anchor may be: some writers
	// went by when records were written.
	grace = 5 * time.Second
)

// Finding is a place where a chain is not as it was written.
type Finding struct {
	File string `json:"file"`
	Line int    `json:"line"`
	What string `json:"what"`
}

// String returns file:line: what.
func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.What) }

// Report is the result of verifying a chain.
type Report struct {
	Chain string `json:"chain"`
	// Records is how many there are, from First to Last by their numbers, and Hash is the hash
	// of the last one.
	Records int64  `json:"records"`
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Hash    Hash   `json:"hash"`
	// Anchored is the number of the last anchor, with a key of the last signed one, 0 for none:
	// nothing vouches for what follows. Signed says that there are anchors, and that the key has
	// signed every one of them. Closed says that the chain ends with the anchor of a gateway that
	// has stopped: without it, nothing tells whether records at the end are missing.
	Anchored uint64 `json:"anchored"`
	Signed   bool   `json:"signed"`
	Closed   bool   `json:"closed"`
	// Lost is how many records the chain itself says were lost, because a queue was full or a
	// sink failed.
	Lost int64 `json:"lost"`
	// Torn counts the incomplete lines that the gateway itself has found at its start, after a
	// crash.
	Torn int `json:"torn"`
	// Beside is the name of the file that holds the last anchor, as anchors have it; "" for none.
	Beside string `json:"-"`
	// Compared says that the end was compared with what that file says.
	Compared bool `json:"compared"`
	// Findings are in the order of the files; More is how many were left out.
	Findings []Finding `json:"findings"`
	More     int       `json:"more"`
}

// OK reports whether everything that is there is as it was written.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// Verifier reads the files of a chain, oldest first. Its memory does not grow with them.
type Verifier struct {
	key    *Key
	wanted map[uint64]Known

	report   Report
	file     string
	line     int
	began    bool
	inFile   bool // a record of this file was read
	before   link
	distance int       // records since the last anchor
	since    time.Time // of the first of these
	late     bool      // of these, one that is too late was found
	torn     int       // bytes of an incomplete line in front of this one
}

// Known is a record's hash that is known from elsewhere, and from where.
type Known struct {
	Hash Hash
	From string
}

// NewVerifier makes a Verifier. With a key, anchors must be signed with it. wanted are the
// records that must be there, by their numbers.
func NewVerifier(key *Key, wanted map[uint64]Known) *Verifier {
	return &Verifier{key: key, wanted: wanted, report: Report{Signed: key != nil, Findings: []Finding{}}}
}

// Read reads the next file. It returns only errors of reading.
func (v *Verifier) Read(file string, from io.Reader) error {
	v.file, v.line, v.inFile = file, 0, false
	err := Lines(from, func(_ int, line []byte) { v.next(line) })
	v.settle()
	return err
}

// Report returns the result. Nothing may be read afterwards.
func (v *Verifier) Report() *Report {
	if v.began {
		for seq, known := range v.wanted {
			v.find("record %d, which is known from %s, is missing", seq, known.From)
		}
		v.report.Signed = v.report.Signed && v.report.Anchored > 0
	}
	return &v.report
}

// Lines calls do with each line and its number, from 1. A line is valid until do returns; one
// that is too long is cut.
func Lines(from io.Reader, do func(number int, line []byte)) error {
	lines := bufio.NewReaderSize(from, 64<<10)
	var long []byte
	for number := 1; ; {
		part, err := lines.ReadSlice('\n')
		if n := len(part); n > 0 && part[n-1] == '\n' {
			part = part[:n-1]
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(long) < maxLine {
				long = append(long, part...)
			}
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		if len(long) > 0 {
			part = append(long, part...)
			long = long[:0]
		}
		if err == nil || len(part) > 0 {
			do(number, part)
			number++
		}
		if err != nil {
			return nil
		}
	}
}

func (v *Verifier) next(line []byte) {
	v.line++
	l, ok := linkOf(line)
	if !ok {
		v.settle()
		v.torn = max(1, len(line))
		return
	}
	r := readAnchor(line)
	if v.torn != 0 && v.torn == int(r.torn) {
		v.report.Torn++
		v.torn = 0
	}
	v.settle()
	if !l.true {
		v.find("record %d was changed", l.seq)
	}
	v.follow(&l, r)
	v.anchor(&l, r)
	if known, wanted := v.wanted[l.seq]; wanted && known.Hash == l.hash {
		delete(v.wanted, l.seq)
	}
	v.report.Records++
	v.report.Last, v.report.Hash, v.before, v.began, v.inFile = l.seq, l.hash, l, true, true
}

// settle reports a line that is no record, unless the anchor after it has accounted for it.
func (v *Verifier) settle() {
	if v.torn != 0 {
		v.torn = 0
		v.find("a line is not a record")
	}
}

// follow compares a record with the one before it.
func (v *Verifier) follow(l *link, r anchorPart) {
	switch {
	case !v.began:
		v.report.First, v.report.Chain = l.seq, r.chain
		if l.seq == 1 && l.prev != (Hash{}) || l.seq != 1 && r.event != EventFile {
			v.find("the beginning of the file is missing: record %d is neither the first one nor the anchor of a new file",
				l.seq)
		}
	case r.chain != v.report.Chain:
		v.find("record %d is of another chain, %s", l.seq, r.chain)
	case l.seq == v.before.seq+1 && l.prev == v.before.hash:
	case l.seq == v.before.seq+1:
		v.find("record %d does not follow this record %d: one of them was changed or put in", l.seq, v.before.seq)
	case l.seq > v.before.seq:
		v.find("records %d to %d are missing", v.before.seq+1, l.seq-1)
	default:
		v.find("record %d comes after record %d", l.seq, v.before.seq)
	}
}

// anchor checks what a record says about the chain.
func (v *Verifier) anchor(l *link, r anchorPart) {
	v.report.Closed = false
	if r.kind == KindAnchor {
		v.distance, v.report.Closed = 0, r.event == EventStop
		if r.last != "" {
			v.report.Beside = r.last
		}
		if v.key == nil || l.signedBy(v.key) {
			v.report.Anchored = l.seq
		} else {
			v.report.Signed = false
			v.find("the anchor %d is not signed with this key", l.seq)
		}
		return
	}
	if r.kind == KindGap {
		v.report.Lost += r.count
	}
	if v.key == nil {
		return
	}
	if !v.inFile {
		v.find("the file does not begin with an anchor: nobody vouches for record %d", l.seq)
	}
	if v.distance++; v.distance == 1 {
		v.since, v.late = r.time, false
	}
	if v.distance == AnchorEvery+1 {
		v.find("more than %d records without an anchor: the signed ones were taken out", AnchorEvery)
	}
	if took := r.time.Sub(v.since); took > AnchorAfter+grace && !v.late && !v.since.IsZero() {
		v.late = true
		v.find("no anchor for %s, where one stands after %s: the signed ones were taken out",
			took.Round(time.Second), AnchorAfter)
	}
}

func (v *Verifier) find(format string, args ...any) {
	if len(v.report.Findings) == maxFindings {
		v.report.More++
		return
	}
	v.report.Findings = append(v.report.Findings, Finding{v.file, v.line, fmt.Sprintf(format, args...)})
}

// anchorPart holds the members that a verifier reads of a record beside its link.
type anchorPart struct {
	chain, kind, event, last string
	time                     time.Time
	torn, count              int64
}

func readAnchor(line []byte) (p anchorPart) {
	r := mcp.Raw(line)
	chain, _ := r.Member("chain")
	kind, _ := r.Member("kind")
	p.chain, p.kind = chain.Text(), kind.Text()
	at, _ := r.Member("time")
	p.time, _ = time.Parse(timeFormat, at.Text())
	if p.kind != KindAnchor && p.kind != KindGap {
		return p
	}
	event, _ := r.Member("event")
	torn, _ := r.Member("torn")
	count, _ := r.Member("count")
	last, _ := r.Member("last")
	p.event, p.last = event.Text(), last.Text()
	p.torn, _ = strconv.ParseInt(string(torn), 10, 64)
	p.count, _ = strconv.ParseInt(string(count), 10, 64)
	return p
}

// begins returns the chain and the number of the first record of a file, to put files in order. It
// also returns the name of the file with the last anchor, if it says so. ok is false if the file
// does not begin with a record.
func begins(from io.Reader) (chain string, seq uint64, beside string, ok bool) {
	line, _ := bufio.NewReaderSize(from, 4<<10).ReadString('\n') // what is missing is found by Verify
	l, ok := linkOf([]byte(strings.TrimSuffix(line, "\n")))
	first := readAnchor([]byte(line))
	return first.chain, l.seq, first.last, ok
}
