package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// FuzzOutline reads messages with and without an outline. The outline must change nothing
// but the time that it takes to find a member.
func FuzzOutline(f *testing.F) {
	for _, result := range []string{
		`{}`, ` { } `, `{"content":[{"type":"text","text":"uri"}],"resultType":"complete"}`, `{"a":{"resourceUri":1}}`,
		`{"a":{"\u0075ri":1}}`, `{"a":{"ur\u0069":1}}`, `{"a":{"URI":1}}`, `{"a":[{"uri":1}],"a":2,"\u0061":3}`,
		`null`, `[]`, `1`, `{`, `{"a"`, `{"a":}`, `{"a":1,}`, `{"a":1`, `{"a":1 "b":2}`, `{,}`, `{"a":1}}`,
		`{ "a" : { "ui/resourceUri" : [ 1 , 2 ] } , "b" : null }`,
		strings.Repeat(`{"a":`, MaxDepth-1) + "1" + strings.Repeat("}", MaxDepth-1),
		strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth),
		`{"a":1` + manyMembers(MaxMembers-1) + `}`, `{"a":1` + manyMembers(MaxMembers) + `}`,
	} {
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`))
		f.Add([]byte(`{"uri":1,"result":` + result + `,"result":{"b":1},"id":1,"jsonrpc":"2.0"}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plain, err := readDocument(data, false)
		e, err2 := readDocument(data, true)
		if fmt.Sprint(err) != fmt.Sprint(err2) || !bytes.Equal(e.result, plain.result) || !bytes.Equal(e.id, plain.id) {
			t.Fatalf("%q: %v and %q, with an outline %v and %q", data, err, plain.result, err2, e.result)
		}
		if err != nil {
			return
		}
		var want, got []string
		e.result.Members(func(name []byte, value mcp.Raw) bool {
			want = append(want, string(name)+"="+string(value))
			return true
		})
		e.outline.Members(e.result, func(name []byte, value mcp.Raw) bool {
			got = append(got, string(name)+"="+string(value))
			return true
		})
		if strings.Join(want, " ") != strings.Join(got, " ") {
			t.Fatalf("%q: members %q, with an outline %q", data, want, got)
		}
		for _, name := range []string{"a", "content", "none"} {
			value, ok := e.result.Member(name)
			value2, ok2 := e.outline.Member(e.result, name)
			if ok != ok2 || !bytes.Equal(value, value2) {
				t.Fatalf("%q: %s is %q, with an outline %q", data, name, value, value2)
			}
		}
		edits := []mcp.Edit{{Name: "a"}, {Name: "content", Value: mcp.Raw("[]")}}
		edited := mcp.Edited{Of: e.result, Outline: e.outline, Edits: edits}
		if got, want := bytes.Join(edited.Parts(nil), nil), e.result.Edit(edits...); string(got) != string(want[1:]) {
			t.Fatalf("%q: edited %q, with an outline %q", data, want, got)
		}
		if e.outline.LacksURIs(e.result) && namesURI(e.result) {
			t.Fatalf("%q: there is a name that ends in uri", data)
		}
		if e.outline.LacksURIs(append(mcp.Raw{}, e.result...)) {
			t.Fatalf("%q: the outline says something of another value", data)
		}
	})
}

// namesURI reports whether an object or anything in it has a name that some parser reads as
// one that ends in uri.
func namesURI(value mcp.Raw) (found bool) {
	value.Members(func(name []byte, value mcp.Raw) bool {
		plain := mcp.Raw(`"` + string(name) + `"`).Text()
		found = found || strings.HasSuffix(strings.ToLower(plain), "uri") || namesURI(value)
		return true
	})
	value.Elements(func(value mcp.Raw) bool {
		found = found || namesURI(value)
		return true
	})
	return found
}

func TestScanUpstreamOutlinesLargeResults(t *testing.T) {
	message := func(text string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text + `"}],"isError":false}}`)
	}
	small, err := ScanUpstream(message("x"))
	if err != nil || small.Outline != nil {
		t.Errorf("outline %v, error %v", small.Outline, err)
	}
	large, err := ScanUpstream(message(strings.Repeat("x", outlined)))
	if err != nil || large.Outline == nil || !large.Outline.LacksURIs(large.Result) {
		t.Fatalf("outline %v, error %v", large.Outline, err)
	}
	if value, ok := large.Outline.Member(large.Result, "isError"); !ok || string(value) != "false" {
		t.Errorf("isError is %q", value)
	}
}
