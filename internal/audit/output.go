package audit

import (
	"context"
	"fmt"
	"io"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// output is where the lines of one sink go. Only its worker uses it.
type output interface {
	// ready prepares for the next write. The first time, it may let the chain continue where
	// an earlier one has ended.
	ready(ctx context.Context, chain *record.Chain) (head, error)
	// write writes lines, each with a line feed at its end. After an error they are written
	// again: an output takes all of them or none, as far as it can.
	write(ctx context.Context, lines [][]byte) error
	// settle is called when nothing was written for about a second.
	settle() error
	close() error
}

// head is what an output says about where the next line will stand.
type head struct {
	fresh bool  // at the beginning of a file
	torn  int64 // behind an incomplete line of so many bytes
}

// newOutput makes the output of a sink, and checks what can be checked at once.
func newOutput(s Sink, deps Deps) (output, error) {
	switch s.Type {
	case TypeFile:
		return newFile(s, deps)
	case TypeStdout:
		return &writer{to: deps.Stdout}, nil
	}
	return nil, fmt.Errorf("type %q", s.Type) // Validate refuses it
}

// writer is standard output.
type writer struct {
	to    io.Writer
	batch []byte
}

func (w *writer) ready(context.Context, *record.Chain) (head, error) { return head{}, nil }

func (w *writer) write(_ context.Context, lines [][]byte) error {
	w.batch = join(w.batch[:0], lines)
	_, err := w.to.Write(w.batch)
	return err
}

func (w *writer) settle() error { return nil }
func (w *writer) close() error  { return nil }

func join(to []byte, lines [][]byte) []byte {
	for _, line := range lines {
		to = append(to, line...)
	}
	return to
}
