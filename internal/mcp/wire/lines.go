package wire

import (
	"bytes"
	"io"
)

// LineReader reads the messages of a stdio server, one from each line. It is not safe for
// concurrent use.
type LineReader struct {
	buffer
	max int
	err error
}

// NewLineReader reads lines of at most max bytes without their line ends.
func NewLineReader(r io.Reader, max int) *LineReader {
	return &LineReader{buffer: buffer{r: r}, max: max}
}

// Next returns the next line without its LF or CRLF, valid until the next call. It returns
// io.EOF at the end and drops an incomplete last line, ErrTooLarge for a line above the
// limit, or the error of the reader. After an error it returns the same one again.
func (r *LineReader) Next() ([]byte, error) {
	for searched := 0; r.err == nil; {
		if n := bytes.IndexByte(r.data[r.from+searched:r.to], '\n'); n >= 0 {
			line := r.data[r.from : r.from+searched+n]
			r.from += searched + n + 1
			line = bytes.TrimSuffix(line, []byte{'\r'})
			if len(line) > r.max {
				r.err = ErrTooLarge
				break
			}
			return line[:len(line):len(line)], nil
		}
		if searched = r.to - r.from; searched > r.max+1 { // the last byte may be a CR
			r.err = ErrTooLarge
			break
		}
		r.err = r.fill()
	}
	return nil, r.err
}
