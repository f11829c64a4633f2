package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// output takes the lines of one sink. Only its worker uses it.
type output interface {
	// ready prepares for the next write. The first time, it may let the chain continue where
	// an earlier one has ended.
	ready(ctx context.Context, chain *record.Chain) (head, error)
	// write writes entries. After an error they are written again, byte for byte: an output
	// takes all of them or none, as far as it can. A *refusal says more.
	write(ctx context.Context, entries []entry) error
	// settle is called when nothing was written for about a second.
	settle() error
	close() error
}

// entry is a record with its line, which has a line feed at its end.
type entry struct {
	record *record.Record
	line   []byte
}

// head describes the place of the next line in an output.
type head struct {
	fresh bool   // at the beginning of a file
	torn  int64  // behind an incomplete line of so many bytes
	last  string // the name of the file beside it that holds the last anchor
}

// refusal is the answer of a receiver that does not take records.
type refusal struct {
	err   error
	after time.Duration // how long it asks to be left alone
	final bool          // it will never take these records
	taken bool          // it has taken them, but for some
	lost  int64         // how many of those it has not taken
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// newOutput makes the output of a sink, and checks what can be checked at once.
func newOutput(s Sink, deps Deps) (output, error) {
	switch s.Type {
	case TypeFile:
		return newFile(s, deps)
	case TypeStdout:
		return &writer{to: deps.Stdout}, nil
	case TypeSyslog:
		return newSyslog(s)
	case TypeWebhook:
		return newWebhook(s)
	case TypeOTLP:
		return newOTLP(s, deps)
	}
	return nil, fmt.Errorf("type %q", s.Type) // Validate refuses it
}

// writer is standard output.
type writer struct {
	to    io.Writer
	batch []byte
}

func (w *writer) ready(context.Context, *record.Chain) (head, error) { return head{}, nil }

func (w *writer) write(_ context.Context, entries []entry) error {
	w.batch = join(w.batch[:0], entries)
	_, err := w.to.Write(w.batch)
	return err
}

func (w *writer) settle() error { return nil }
func (w *writer) close() error  { return nil }

// join adds the lines of entries to a text.
func join(to []byte, entries []entry) []byte {
	for _, e := range entries {
		to = append(to, e.line...)
	}
	return to
}

// progress is how far a batch has come that a receiver takes in several parts. The parts that
// it has taken are not sent again when another one fails.
type progress struct{ last []byte } // the line that was taken last; empty for none

func (p *progress) rest(entries []entry) []entry {
	for i, e := range entries {
		if len(p.last) > 0 && bytes.Equal(e.line, p.last) {
			return entries[i+1:]
		}
	}
	return entries
}

func (p *progress) took(e entry) { p.last = append(p.last[:0], e.line...) }
func (p *progress) done()        { p.last = p.last[:0] }
