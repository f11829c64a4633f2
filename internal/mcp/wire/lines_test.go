package wire

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func readLines(r io.Reader, limit int) (lines []string, err error) {
	reader := NewLineReader(r, limit)
	for {
		line, err := reader.Next()
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
}

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	tests := []struct {
		name, in string
		max      int
		want     []string
		err      error
	}{
		{"lines", "a\nb\r\n\n{\"x\":1}\n", 10, []string{"a", "b", "", `{"x":1}`}, io.EOF},
		{"half a line", "a\nb", 10, []string{"a"}, io.EOF},
		{"nothing", "", 10, nil, io.EOF},
		{"NUL bytes and single CRs stay", "a\x00b\rc\n", 10, []string{"a\x00b\rc"}, io.EOF},
		{"no limit of 64 KiB", long + "\n" + long + "\n", 1 << 20, []string{long, long}, io.EOF},
		{"just the limit", "0123456789\n0123456789\r\n", 10, []string{"0123456789", "0123456789"}, io.EOF},
		{"above the limit", "a\n0123456789x\n", 10, []string{"a"}, ErrTooLarge},
		{"never an end", "a\n" + long, 1000, []string{"a"}, ErrTooLarge},
	}
	for _, test := range tests {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader,
			"byte by byte": iotest.OneByteReader,
		} {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				got, err := readLines(reader(strings.NewReader(test.in)), test.max)
				if !errors.Is(err, test.err) || !slices.Equal(got, test.want) {
					t.Errorf("got %.100q, %v\nwant %.100q, %v", got, err, test.want, test.err)
				}
			})
		}
	}
}

func FuzzLineReader(f *testing.F) {
	f.Add([]byte("a\r\nb\n\nc"), 3)
	f.Add([]byte(strings.Repeat("0123456789", 1000)+"\n"), 200)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		want := strings.Split(string(in), "\n")
		want = want[:len(want)-1]
		for i := range want {
			want[i] = strings.TrimSuffix(want[i], "\r")
		}
		got, err := readLines(&chunks{bytes.NewReader(in), 1 + size&0xff}, 1<<20)
		if !errors.Is(err, io.EOF) || !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, %v, want %q", in, got, err, want)
		}
	})
}
