package http1

import (
	"bytes"
	"errors"
	"io"
)

const (
	maxChunkLine = 1 << 10 // the size of a chunk and its extensions
	maxSize      = 15      // digits, so that any size is an int64
	// maxBeside is how much a chunked body may have beside its data and the sizes of
	// its chunks: extensions and trailer, which are dropped.
	maxBeside = 16 << 10
)

var errChunk = errors.New("http1: the chunks of the answer are malformed")

// chunkState is where in its chunks a body is.
type chunkState struct {
	part   chunkPart
	beside int // bytes of extensions and trailer so far
}

type chunkPart uint8

const (
	chunkSize chunkPart = iota // a line with the size comes next
	chunkData                  // as many bytes as are left
	chunkEnd                   // the line end after the data
	trailer                    // lines, up to an empty one
)

// readChunks reads the available part of the chunks (RFC 9112 §7.1). It waits only if it has
// nothing yet.
func (b *body) readChunks(p []byte) (n int, err error) {
	for {
		if b.chunk.part == chunkData {
			if n > 0 && b.c.r == b.c.w || n == len(p) {
				return n, nil
			}
			got, err := b.c.read(p[n : n+int(min(int64(len(p)-n), b.left))])
			n += got
			if b.left -= int64(got); b.left == 0 {
				b.chunk.part = chunkEnd
			}
			if err != nil {
				return n, cut(err)
			}
			continue
		}
		length, err := b.c.line(0, maxChunkLine, n == 0)
		if err != nil {
			return n, cut(err)
		}
		if length < 0 { // it is not whole
			return n, nil
		}
		line := b.c.in[b.c.r : b.c.r+length]
		b.c.r += length + len(crlf)
		if err := b.readLine(line); err != nil {
			return n, err
		}
	}
}

// readLine takes a line in between data. io.EOF says that it was the last.
func (b *body) readLine(line []byte) error {
	switch b.chunk.part {
	case chunkSize:
		return b.readSize(line)
	case chunkEnd:
		if len(line) > 0 {
			return errChunk
		}
		b.chunk.part = chunkSize
		return nil
	}
	if len(line) == 0 {
		return io.EOF
	}
	var f field
	if err := f.read(line, 0); err != nil {
		return err
	}
	return b.beside(len(line))
}

// readSize reads the line before a chunk: the size and, after a semicolon,
// extensions. Some pad the size with blanks.
func (b *body) readSize(line []byte) error {
	digits := 0
	b.left = 0
	for digits < len(line) && digits <= maxSize {
		d := unhex(line[digits])
		if d < 0 {
			break
		}
		b.left = b.left<<4 | int64(d)
		digits++
	}
	rest := bytes.TrimLeft(line[digits:], " \t")
	if digits == 0 || digits > maxSize || len(rest) > 0 && rest[0] != ';' || !isFieldValue(rest) {
		return errChunk
	}
	b.chunk.part = chunkData
	if b.left == 0 {
		b.chunk.part = trailer
	}
	return b.beside(len(line) - digits)
}

func (b *body) beside(n int) error {
	if b.chunk.beside += n; b.chunk.beside > maxBeside {
		return errChunk
	}
	return nil
}

// unhex reads a hexadecimal digit; -1 where it is none.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// cut is the error of a body that ends too early.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
