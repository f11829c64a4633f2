package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

var testKey = []byte("a secret of thirty-two bytes, 12")

// written returns a closed chain of n lines, from a file anchor to a stop anchor.
func written(t testing.TB, n int, secret []byte) (lines []string, key *Key) {
	t.Helper()
	if secret != nil {
		var err error
		if key, err = NewKey(secret); err != nil {
			t.Fatal(err)
		}
	}
	c := NewChain("alpha.file", key)
	add := func(r *Record) {
		r.Time = time.Unix(1700000000, int64(len(lines))*1000)
		lines = append(lines, string(c.Append(nil, r)))
	}
	add(&Record{Kind: KindAnchor, Event: EventFile, Replica: "alpha"})
	for len(lines) < n-1 {
		if c.Unanchored == AnchorEvery {
			add(&Record{Kind: KindAnchor, Event: EventRecords, Replica: "alpha"})
			continue
		}
		add(&Record{Kind: KindCall, ID: fmt.Sprintf("alpha-%d", len(lines)), User: "alice", Name: "crm__export",
			Decision: "allow", Rule: "sales", RequestBytes: len(lines)})
	}
	add(&Record{Kind: KindAnchor, Event: EventStop, Replica: "alpha"})
	return lines, key
}

func verified(t testing.TB, key *Key, files ...string) *Report {
	t.Helper()
	v := NewVerifier(key, nil)
	for i, file := range files {
		if err := v.Read(fmt.Sprintf("f%d", i), strings.NewReader(file)); err != nil {
			t.Fatal(err)
		}
	}
	return v.Report()
}

func TestChain(t *testing.T) {
	for _, secret := range [][]byte{nil, testKey} {
		lines, key := written(t, 2500, secret)
		r := verified(t, key, strings.Join(lines, ""))
		if !r.OK() || !r.Closed || r.Records != 2500 || r.First != 1 || r.Last != 2500 || r.Signed != (secret != nil) ||
			r.Chain != "alpha.file" {
			t.Errorf("%+v", r)
		}
		for i, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Fatalf("line %d is not JSON: %s", i, line)
			}
		}
	}
}

// TestEveryChangeIsFound: whatever is done to one record, or to two of them, Verify finds it.
// A record that is cut off the end is only found by the missing anchor of a stop.
func TestEveryChangeIsFound(t *testing.T) {
	lines, key := written(t, 60, testKey)
	others, _ := written(t, 60, nil)
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom([]*Key{nil, key}).Draw(t, "key")
		changed := slices.Clone(lines)
		i := rapid.IntRange(0, len(lines)-1).Draw(t, "record")
		j := rapid.IntRange(0, len(lines)-1).Filter(func(j int) bool { return j != i }).Draw(t, "other")
		what := rapid.SampledFrom([]string{"byte", "cut", "swap", "insert", "copy", "move", "truncate", "rewrite"}).Draw(t,
			"what")
		switch what {
		case "byte":
			at := rapid.IntRange(0, len(lines[i])-2).Draw(t, "at") // not the line feed
			to := rapid.ByteRange(0, 255).Filter(func(b byte) bool { return b != lines[i][at] }).Draw(t, "to")
			changed[i] = lines[i][:at] + string([]byte{to}) + lines[i][at+1:]
		case "cut":
			changed = slices.Delete(changed, i, i+1)
		case "swap":
			changed[i], changed[j] = changed[j], changed[i]
		case "insert":
			changed = slices.Insert(changed, i, others[j])
		case "copy":
			changed = slices.Insert(changed, i, lines[j])
		case "move":
			line := changed[i]
			changed = slices.Insert(slices.Delete(changed, i, i+1), j, line)
		case "truncate":
			changed[i] = lines[i][:rapid.IntRange(0, len(lines[i])-2).Draw(t, "at")] + "\n"
		case "rewrite": // a record that is intact in itself, as whoever has no key can make it
			c := Chain{Name: "alpha.file", Seq: uint64(i)}
			if i > 0 {
				l, _ := linkOf([]byte(strings.TrimSuffix(lines[i-1], "\n")))
				c.Last = l.hash
			}
			changed[i] = string(c.Append(nil, &Record{Kind: KindCall, Time: time.Unix(1, 0), User: "mallory"}))
		}
		v := NewVerifier(k, nil)
		half := rapid.IntRange(0, len(changed)).Draw(t, "half") // of two files
		if k != nil {
			half = len(changed) // a file begins with an anchor
		}
		for _, part := range [][]string{changed[:half], changed[half:]} {
			if err := v.Read("f", strings.NewReader(strings.Join(part, ""))); err != nil {
				t.Fatal(err)
			}
		}
		if r := v.Report(); r.OK() && r.Closed {
			t.Fatalf("%s of record %d (and %d) is not found", what, i+1, j+1)
		}
	})
}

// TestKeyIsNeeded: whoever can write the files but has no key can make a chain that fits
// together, but none with signed anchors.
func TestKeyIsNeeded(t *testing.T) {
	_, key := written(t, 3, testKey)
	forged, _ := written(t, 1500, nil)
	if r := verified(t, nil, strings.Join(forged, "")); !r.OK() {
		t.Errorf("without the key it cannot be told: %v", r.Findings)
	}
	if r := verified(t, key, strings.Join(forged, "")); r.OK() || r.Signed || len(r.Findings) != 3 {
		t.Errorf("%+v", r)
	}
	c := NewChain("alpha.file", nil)
	text := string(c.Append(nil, &Record{Kind: KindAnchor, Event: EventFile}))
	_, other := written(t, 3, []byte("another secret of thirty-two byt"))
	signed := NewChain("alpha.file", other)
	text2 := string(signed.Append(nil, &Record{Kind: KindAnchor, Event: EventFile}))
	for range AnchorEvery + 5 {
		text += string(c.Append(nil, &Record{Kind: KindCall}))
	}
	if r := verified(t, key, text); len(r.Findings) != 2 || r.Anchored != 0 ||
		!strings.Contains(r.Findings[1].What, "were taken out") {
		t.Errorf("no anchors: %v", r.Findings)
	}
	if r := verified(t, key, text2); r.OK() {
		t.Error("another key's signature is taken")
	}
	if a, b := key.Arguments([]byte("x")), (*Key)(nil).Arguments([]byte("x")); a == b ||
		!strings.HasPrefix(a, "hmac-sha256:") || !strings.HasPrefix(b, "sha256:") {
		t.Error(a, b)
	}
}

// TestAnchorsVouch: with a key, what no signed anchor vouches for is found, or said.
func TestAnchorsVouch(t *testing.T) {
	key, err := NewKey(testKey)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Unix(1700000000, 0)
	c := NewChain("alpha.file", key)
	var text strings.Builder
	add := func(kind, event string, after time.Duration) *strings.Builder {
		text.Write(c.Append(nil, &Record{Kind: kind, Event: event, Time: begin.Add(after)}))
		return &text
	}
	taken := func() string { defer text.Reset(); return text.String() }

	for i := range 900 { // made up as a whole
		add(KindCall, "", time.Duration(i)*time.Millisecond)
	}
	if r := verified(t, key, taken()); r.OK() || r.Signed || r.Anchored != 0 ||
		!strings.Contains(r.Findings[0].What, "does not begin with an anchor") {
		t.Errorf("no anchor: %+v", r)
	}

	c = NewChain("alpha.file", key)
	add(KindAnchor, EventFile, 0)
	for i := range 60 {
		add(KindCall, "", time.Hour+time.Duration(i)*time.Second)
	}
	add(KindAnchor, EventRecords, time.Hour+time.Minute)
	add(KindCall, "", 2*time.Hour)
	add(KindCall, "", 2*time.Hour+time.Second)
	first := taken()
	if r := verified(t, key, first); !r.OK() || !r.Signed || r.Anchored != 62 || r.Last != 64 {
		t.Errorf("a tail: %+v", r)
	}

	forged := c // without the key, a chain can be continued
	forged.key = nil
	tail := func(from Chain, after time.Duration) string {
		return string(from.Append(nil, &Record{Kind: KindCall, Time: begin.Add(after)}))
	}
	if r := verified(t, key, first+tail(forged, 3*time.Hour)); len(r.Findings) != 1 ||
		!strings.Contains(r.Findings[0].What, "no anchor for 1h0m0s") {
		t.Errorf("a long tail: %+v", r)
	}
	if r := verified(t, key, first, tail(forged, 2*time.Hour+2*time.Second)); len(r.Findings) != 1 ||
		!strings.Contains(r.Findings[0].What, "does not begin with an anchor") {
		t.Errorf("a file of its own: %+v", r)
	}
	if r := verified(t, nil, first, tail(forged, 3*time.Hour)); !r.OK() {
		t.Errorf("without the key: %+v", r)
	}
}

func TestVerifyFindings(t *testing.T) {
	lines, _ := written(t, 20, nil)
	all := strings.Join(lines, "")
	part := func(from, to int) string { return strings.Join(lines[from:to], "") }
	other := NewChain("beta.file", nil)
	other.Seq, other.Last = 5, Hash{1}
	torn := func(n int64) string {
		c := NewChain("alpha.file", nil)
		if err := c.Resume([]byte(strings.TrimSuffix(lines[9], "\n"))); err != nil {
			t.Fatal(err)
		}
		return part(0, 10) + "{\"seq\":11,\"pr\n" + string(c.Append(nil,
			&Record{Kind: KindAnchor, Event: EventStart, Torn: n}))
	}
	for _, tt := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"intact", []string{all}, nil},
		{"nothing", []string{""}, nil},
		{"no line feed at the end", []string{strings.TrimSuffix(all, "\n")}, nil},
		{"several files", []string{part(0, 7), part(7, 8), part(8, 20)}, nil},
		{"a gap", []string{part(0, 7) + part(9, 20)}, []string{"f0:8: records 8 to 9 are missing"}},
		{"a file is missing", []string{part(0, 7), part(9, 20)}, []string{"f1:1: records 8 to 9 are missing"}},
		{"the head is missing", []string{part(2, 20)},
			[]string{"f0:1: the beginning of the file is missing: record 3 is neither the first one nor the anchor of a new file"}},
		{"another order", []string{part(7, 20), part(0, 7)},
			[]string{"f0:1: the beginning of the file is missing: record 8 is neither the first one nor the anchor of a new file", "f1:1: record 1 comes after record 20"}},
		{"twice", []string{part(0, 7) + part(6, 20)}, []string{"f0:8: record 7 comes after record 7"}},
		{"a changed one", []string{part(0, 5) + strings.Replace(lines[5], "alice", "bobby", 1) + part(6, 20)},
			[]string{"f0:6: record 6 was changed"}},
		{"another chain", []string{part(0, 5) + string(other.Append(nil, &Record{Kind: KindCall}))},
			[]string{"f0:6: record 6 is of another chain, beta.file"}},
		{"a crash", []string{torn(13)}, nil},
		{"a crash of another length", []string{torn(12)}, []string{"f0:12: a line is not a record"}},
		{"something else", []string{"hello\n" + all}, []string{"f0:2: a line is not a record"}},
		{"an incomplete end", []string{all + "{\"seq\""}, []string{"f0:21: a line is not a record"}},
	} {
		var got []string
		for _, f := range verified(t, nil, tt.files...).Findings {
			got = append(got, f.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
	v := NewVerifier(nil, map[uint64]Known{20: {From: "the log"}, 7: {Hash: mustLink(t, lines[6]).hash}})
	_ = v.Read("f", strings.NewReader(all))
	if r := v.Report(); len(r.Findings) != 1 || !strings.Contains(r.Findings[0].What,
		"record 20, which is known from the log, is missing") {
		t.Errorf("known from elsewhere: %v", r.Findings)
	}
}

func mustLink(t *testing.T, line string) link {
	t.Helper()
	l, ok := linkOf([]byte(strings.TrimSuffix(line, "\n")))
	if !ok {
		t.Fatalf("no line of a chain: %s", line)
	}
	return l
}

// TestFieldsAreDocumented: docs/audit.md has each member of a record, in the order in which
// they are written.
func TestFieldsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "audit.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| member | in | meaning |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var told []string
	for row := range strings.Lines(table) {
		told = append(told, strings.Trim(strings.Split(row, "|")[1], " `"))
	}
	var names []string
	mcp.Raw(fullLine(t)).Members(func(name []byte, _ mcp.Raw) bool {
		names = append(names, string(name))
		return true
	})
	if !slices.Equal(told, names) {
		t.Errorf("docs/audit.md has\n%q\nwant\n%q", told, names)
	}
}

// fullLine is a record in which nothing is left out.
func fullLine(t *testing.T) []byte {
	t.Helper()
	key, err := NewKey(testKey)
	if err != nil {
		t.Fatal(err)
	}
	r := fullRecord()
	r.Kind = KindAnchor
	c := NewChain("alpha.file", key)
	return bytes.TrimSuffix(c.Append(nil, &r), []byte("\n"))
}

func fullRecord() (r Record) {
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); value := f.Addr().Interface().(type) {
		case *string:
			*value = "x"
		case *[]string:
			*value = []string{"x"}
		case *time.Time:
			*value = time.Unix(1700000000, 0)
		case *mcp.Raw:
			*value = mcp.Raw(`{"a":1}`)
		case *[]mcp.HookRun:
			*value = []mcp.HookRun{{Name: "x", On: "results", Action: "pass", Took: time.Second}, {}}
		case **trail.Trail:
		default:
			f.SetInt(1_000_000)
		}
	}
	return r
}

// TestReadAgain: a record that is read again is the one that was written, however often.
func TestReadAgain(t *testing.T) {
	long := fullRecord()
	long.Name, long.Reason = "x"+strings.Repeat("ä", maxText), strings.Repeat("y", maxText+1)
	for _, r := range []Record{fullRecord(), long} {
		text := r.AppendJSON(nil)
		var again Record
		if err := json.Unmarshal(text, &again); err != nil || string(again.AppendJSON(nil)) != string(text) {
			t.Errorf("%v: %s, want %s", err, again.AppendJSON(nil), text)
		}
	}
	want, got := fullRecord(), Record{}
	if err := json.Unmarshal(fullLine(t), &got); err != nil {
		t.Fatal(err)
	}
	got.Time, got.Started, got.Kind = got.Time.Local(), got.Started.Local(), want.Kind
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read of a line: %+v, want %+v", got, want)
	}
}

func TestTextsAreBounded(t *testing.T) {
	c := NewChain("a", nil)
	line := c.Append(nil, &Record{Kind: KindCall, Name: strings.Repeat("ä", maxText), User: "a\xff\u202e\"\n"})
	var got struct{ Name, User string }
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Name) != maxText+3 || !strings.HasSuffix(got.Name, "ä...") || got.User != "a\ufffd\u202e\"\n" {
		t.Errorf("%d bytes, %q", len(got.Name), got.User)
	}
}

func FuzzVerify(f *testing.F) {
	lines, key := written(f, 5, testKey)
	f.Add([]byte(strings.Join(lines, "")))
	f.Add([]byte(`{"seq":1,"prev":"` + strings.Repeat("0", hexSize) + `","chain":"a"` +
		signatureMember + strings.Repeat("0", hexSize) + `"` + hashMember + strings.Repeat("0", hexSize) + `"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v := NewVerifier(key, nil)
		if err := v.Read("f", bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if r := v.Report(); r.Records > int64(len(text)) {
			t.Error("more records than bytes")
		}
	})
}

// BenchmarkVerify reads a million records, made as they are read. docs/audit.md has the number.
func BenchmarkVerify(b *testing.B) {
	for b.Loop() {
		v := NewVerifier(nil, nil)
		if err := v.Read("f", &million{chain: NewChain("alpha.file", nil), left: 1_000_000}); err != nil {
			b.Fatal(err)
		}
		if r := v.Report(); !r.OK() || r.Records != 1_000_000 {
			b.Fatal(r.Records, r.Findings)
		}
	}
}

// million is a reader of records.
type million struct {
	chain Chain
	left  int
	text  []byte
}

func (m *million) Read(to []byte) (int, error) {
	if len(m.text) == 0 {
		if m.left == 0 {
			return 0, io.EOF
		}
		m.left--
		m.text = m.chain.Append(m.text[:0], typical(m.left))
	}
	n := copy(to, m.text)
	m.text = m.text[n:]
	return n, nil
}

func typical(i int) *Record {
	return &Record{
		Time: time.Unix(1700000000, int64(i)), Kind: KindCall, ID: "alphabeta-1f", Issuer: "https://login.example.com",
		User: "alice", Groups: []string{"sales", "all"}, Client: "agent",
		Session: "0123456789abcdef0123456789abcdef", Revision: "2026-07-28", Era: "stateless", Method: "tools/call",
		Name: "crm__export", Upstream: "crm", Original: "export",
		UpstreamRevision: "2025-11-25", UpstreamEra: "stateful", Decision: "allow", Rule: "sales may export",
		RuleAt: "gatehouse.yaml:42", Outcome: "ok", Executed: ExecutedYes,
		Duration: time.Duration(rand.N(1_000_000)), RequestBytes: 120, ReplyBytes: 4000,
		ArgumentsDigest: "sha256:" + strings.Repeat("0123", 16),
	}
}

func BenchmarkAppend(b *testing.B) {
	c, r := NewChain("alpha.file", nil), typical(1)
	var line []byte
	b.ReportAllocs()
	for b.Loop() {
		line = c.Append(line[:0], r)
	}
	b.SetBytes(int64(len(line)))
}
