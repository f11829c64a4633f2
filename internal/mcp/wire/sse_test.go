package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readEvents reads all events as text, and the final error.
func readEvents(r io.Reader, maxEvent int) (events []string, lastID string, err error) {
	reader := NewEventReader(r, maxEvent)
	for {
		e, err := reader.Next()
		if err != nil {
			return events, reader.LastID(), err
		}
		events = append(events, fmt.Sprintf("%q %q %q %v", e.ID, e.Name, e.Data, e.Retry))
	}
}

func TestEventReader(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
		lastID   string
	}{
		{name: "one", in: "data: {}\n\n", want: []string{`"" "" "{}" 0s`}},
		{name: "all fields", in: "id: 7\nevent: message\nretry: 1500\ndata: {}\n\n",
			want: []string{`"7" "message" "{}" 1.5s`}, lastID: "7"},
		{name: "priming event", in: "id: 1\ndata:\n\ndata: x\n\n",
			want: []string{`"1" "" "" 0s`, `"" "" "x" 0s`}, lastID: "1"},
		{name: "retry alone", in: "retry: 10\n\n", want: []string{`"" "" "" 10ms`}},
		{name: "CRLF", in: "data: a\r\n\r\ndata: b\r\n\r\n", want: []string{`"" "" "a" 0s`, `"" "" "b" 0s`}},
		{name: "CR only", in: "data: a\r\rdata: b\r\r", want: []string{`"" "" "a" 0s`, `"" "" "b" 0s`}},
		{name: "mixed line ends", in: "data: a\r\ndata: b\n\rdata: c\r\n\n",
			want: []string{`"" "" "a\nb" 0s`, `"" "" "c" 0s`}},
		{name: "byte order mark", in: "\ufeffdata: a\n\n", want: []string{`"" "" "a" 0s`}},
		{name: "a byte order mark later on is text", in: "data: a\n\n\ufeffdata: b\n\n", want: []string{`"" "" "a" 0s`}},
		{name: "field without colon", in: "data\n\nid\ndata: x\n\n", want: []string{`"" "" "" 0s`, `"" "" "x" 0s`}},
		{name: "unknown fields", in: "foo: 1\nDATA: x\ndata : y\ndata: z\n\n", want: []string{`"" "" "z" 0s`}},
		{name: "several data lines", in: "data: a\ndata:\ndata:  b\n\n", want: []string{`"" "" "a\n\n b" 0s`}},
		{name: "comments", in: ": hi\n\n:\n\ndata: a\n: in between\ndata: b\n\n", want: []string{`"" "" "a\nb" 0s`}},
		{name: "retry is clamped", in: "retry: 1000000000000000000000000\ndata: a\n\n", want: []string{`"" "" "a" 30s`}},
		{name: "retry with other characters", in: "retry: 1s\nretry: -1\nretry:\ndata: a\n\n",
			want: []string{`"" "" "a" 0s`}},
		{name: "long id", in: "id: 1\ndata: a\n\nid: " + strings.Repeat("x", MaxEventID+1) + "\ndata: b\n\n",
			want: []string{`"1" "" "a" 0s`, `"" "" "b" 0s`}, lastID: "1"},
		{name: "NUL in the id", in: "id: a\x00b\ndata: a\n\n", want: []string{`"" "" "a" 0s`}},
		{name: "an empty id forgets", in: "id: 1\ndata: a\n\nid:\ndata: b\n\n",
			want: []string{`"1" "" "a" 0s`, `"" "" "b" 0s`}},
		{name: "half an event", in: "id: 1\ndata: a\n\nid: 2\ndata: b\n", want: []string{`"1" "" "a" 0s`}, lastID: "1"},
		{name: "half a line", in: "data: a\n\ndata: b", want: []string{`"" "" "a" 0s`}},
		{name: "endpoint", in: "event: endpoint\ndata: /messages?x=1\n\n",
			want: []string{`"" "endpoint" "/messages?x=1" 0s`}},
		{name: "nothing", in: ""},
	}
	readers := map[string]func(io.Reader) io.Reader{
		"at once":      func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
		"with EOF":     iotest.DataErrReader,
	}
	for _, test := range tests {
		for name, reader := range readers {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				got, lastID, err := readEvents(reader(strings.NewReader(test.in)), 1<<20)
				if !errors.Is(err, io.EOF) || !slices.Equal(got, test.want) || lastID != test.lastID {
					t.Errorf("got %v, last id %q, %v\nwant %v, last id %q", got, lastID, err, test.want, test.lastID)
				}
			})
		}
	}
}

func TestEventReaderDoesNotWaitAfterCR(t *testing.T) {
	// The line feed of a CRLF may come later: the event is complete without it.
	in, out := io.Pipe()
	defer in.Close()
	go func() {
		_, _ = out.Write([]byte("data: a\r\n\r"))
	}()
	if e, err := NewEventReader(in, 100).Next(); err != nil || string(e.Data) != "a" {
		t.Errorf("%q, %v", e.Data, err)
	}
}

func TestEventReaderLimits(t *testing.T) {
	event := "data: " + strings.Repeat("x", 90) + "\n\n" // 97 bytes before the empty line's end
	t.Run("just below", func(t *testing.T) {
		if got, _, err := readEvents(strings.NewReader(strings.Repeat(event, 100)), 97); len(got) != 100 ||
			!errors.Is(err, io.EOF) {
			t.Errorf("%d events, %v", len(got), err)
		}
	})
	for name, in := range map[string]string{
		"a long line":              event + "data: " + strings.Repeat("x", 200),
		"many lines":               event + strings.Repeat("data: x\n", 100) + "\n",
		"a comment":                event + ":" + strings.Repeat("x", 200),
		"comments inside an event": event + "data: a\n" + strings.Repeat(":\n", 200),
		"a line that is whole":     event + "data: " + strings.Repeat("x", 200) + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := NewEventReader(strings.NewReader(in), 97)
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the error stays
				if _, err := r.Next(); !errors.Is(err, ErrTooLarge) {
					t.Fatalf("got %v", err)
				}
			}
		})
	}
	t.Run("a flood of comments is no event", func(t *testing.T) {
		if got, _, err := readEvents(strings.NewReader(strings.Repeat(": keep-alive\n\n", 1000)+event), 100); len(got) != 1 ||
			!errors.Is(err, io.EOF) {
			t.Errorf("%d events, %v", len(got), err)
		}
	})
	t.Run("a megabyte and more in one line", func(t *testing.T) {
		data := strings.Repeat("0123456789abcdef", 3<<16)
		got, _, err := readEvents(strings.NewReader("data: "+data+"\n\ndata: "+data+"\n\n"+event), 4<<20)
		if len(got) != 3 || !strings.Contains(got[1], data) || !errors.Is(err, io.EOF) {
			t.Errorf("%d events, %v", len(got), err)
		}
	})
	t.Run("large events leave no large buffer", func(t *testing.T) {
		in, out := io.Pipe()
		go func() {
			_, _ = out.Write([]byte("data: " + strings.Repeat("x", 3*keptBuffer) + "\n\n"))
			_, _ = out.Write([]byte("data: x\n\n"))
			out.Close()
		}()
		r := NewEventReader(in, 8<<20)
		for range 2 {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.data) > keptBuffer {
			t.Errorf("it keeps %d bytes", len(r.data))
		}
	})
	t.Run("a reader that is stuck", func(t *testing.T) {
		if _, err := NewEventReader(stuck{}, 100).Next(); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("got %v", err)
		}
	})
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestAppendEvent(t *testing.T) {
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"data only", AppendEvent(nil, "", "", []byte(`{"a":1}`)), "data: {\"a\":1}\n\n"},
		{"all", AppendEvent([]byte("x"), "1.2", "message", []byte(`{}`)), "xid: 1.2\nevent: message\ndata: {}\n\n"},
		{"priming", AppendEvent(nil, "1.0", "", nil), "id: 1.0\ndata: \n\n"},
		{"line ends in data", AppendEvent(nil, "", "", []byte("a\nb\r\nc\rd\n")),
			"data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{"nothing can be put in by an id", AppendEvent(nil, "1\ndata: x", "a\rb", []byte("d")), "data: d\n\n"},
		{"comment", AppendComment(nil, "keep-alive"), ": keep-alive\n\n"},
		{"empty comment", AppendComment(nil, ""), ":\n\n"},
		{"comment with a line end", AppendComment(nil, "a\ndata: x"), ":\n\n"},
		{"retry", AppendRetry(nil, 1500*time.Millisecond), "retry: 1500\n\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if string(test.got) != test.want {
				t.Errorf("got %q, want %q", test.got, test.want)
			}
		})
	}
}

// referenceEvents reads a whole stream step by step as the standard describes.
func referenceEvents(in string) (events []string, lastID string) {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(in, "\n")
	var data []string
	var id, name string
	var retry time.Duration
	var any, hasID bool
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if any {
				events = append(events, fmt.Sprintf("%q %q %q %v", id, name, strings.Join(data, "\n"), retry))
			}
			if hasID {
				lastID = id
			}
			data, id, name, retry, any, hasID = nil, "", "", 0, false, false
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch key {
		case "data":
			data, any = append(data, value), true
		case "id":
			if !strings.Contains(value, "\x00") && len(value) <= MaxEventID {
				id, hasID, any = value, true, true
			}
		case "event":
			name, any = value, true
		case "retry":
			if value != "" && strings.Trim(value, "0123456789") == "" {
				any, retry = true, 30*time.Second
				if digits := strings.TrimLeft(value, "0"); len(digits) < 6 {
					var ms int
					_, _ = fmt.Sscanf("0"+digits, "%d", &ms)
					retry = min(retry, time.Duration(ms)*time.Millisecond)
				}
			}
		}
	}
	return events, lastID
}

// chunks returns a few bytes at a time.
type chunks struct {
	r    io.Reader
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	return c.r.Read(p[:min(len(p), c.size)])
}

func FuzzEventReader(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\n", "data\r\rid: 1\r\n\r\n", "\ufeffdata:a\n\n", ":x\n\ndata: 1\ndata:2\n\n", "retry: 99999\nevent: x\n\n",
		"data: a\n\r\n\n", "id: \x00\ndata:\n\nx",
		"data: a\r\ndata: b\r\n\r", strings.Repeat("data: 0123456789\n", 20) + "\n",
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		want, wantID := referenceEvents(string(in))
		got, lastID, err := readEvents(&chunks{bytes.NewReader(in), 1 + size&0xff}, 1<<20)
		if !errors.Is(err, io.EOF) || !slices.Equal(got, want) || lastID != wantID {
			t.Fatalf("%q:\ngot  %v %q %v\nwant %v %q", in, got, lastID, err, want, wantID)
		}
		// What AppendEvent writes reads back the same.
		if bytes.IndexByte(in, '\r') < 0 {
			e, err := NewEventReader(bytes.NewReader(AppendEvent(nil, "1", "", in)), 1<<20).Next()
			if err != nil || !bytes.Equal(e.Data, in) || e.ID != "1" {
				t.Fatalf("%q came back as %q, %v", in, e.Data, err)
			}
		}
	})
}

func BenchmarkEventReader(b *testing.B) {
	event := AppendEvent(nil, "12", "message",
		[]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":5}}`))
	large := AppendEvent(nil, "", "", bytes.Repeat([]byte("0123456789abcdef"), 1<<16))
	for name, stream := range map[string][]byte{"progress": bytes.Repeat(event, 1000), "1MiB": large} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				r := NewEventReader(bytes.NewReader(stream), 4<<20)
				for {
					if _, err := r.Next(); err != nil {
						break
					}
				}
			}
		})
	}
}

// TestEventReaderFree: memory that was given back, once or twice, has one user afterwards.
func TestEventReaderFree(t *testing.T) {
	read := func(text string) (*EventReader, Event) {
		r := NewEventReader(strings.NewReader(text), 1<<20)
		event, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		return r, event
	}
	for range 100 { // a pool may lose what it is given
		first, _ := read("id: 7\ndata: first\n\n")
		first.Free()
		first.Free()
		if first.LastID() != "7" || first.Buffered() != 0 {
			t.Errorf("afterwards: id %q, %d bytes", first.LastID(), first.Buffered())
		}
		long := strings.Repeat("x", 2*firstBuffer) // which does not fit into the first memory
		second, a := read("data: second\n\ndata: more\n\n")
		third, b := read("data: " + long + "\n\n")
		if string(a.Data) != "second" || string(b.Data) != long {
			t.Errorf("%q, and %d bytes", a.Data, len(b.Data))
		}
		second.Free()
		third.Free()
	}
}
