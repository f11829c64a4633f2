package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestCheckObject(t *testing.T) {
	tests := []struct {
		name, in string
		routed   []string
		bad      string // part of the error; "" when it is fine
	}{
		{name: "absent"},
		{name: "empty", in: `{}`},
		{name: "fine", in: `{"name":"a","arguments":{"x":1,"x":2,"X":3},"_meta":{}}`, routed: []string{"name"}},
		{name: "other names in any case", in: `{"Foo":1,"bar":2}`, routed: []string{"name"}},
		{name: "duplicate name", in: `{"name":"safe","name":"secret"}`, bad: `two members are named "name"`},
		{name: "twins in case", in: `{"name":"safe","NAME":"secret"}`, bad: `two members are named "NAME"`},
		{name: "twins by Unicode folding", in: `{"k":1,"K":2}`, bad: "two members are named"},
		{name: "twins by Unicode folding, of other lengths", in: `{"K":1,"a":2,"k":3}`, bad: "two members are named"},
		{name: "twins after a name beyond ASCII", in: `{"é":1,"ab":2,"aB":3}`, bad: "two members are named"},
		{name: "a routed name in another alphabet", in: `{"taſk":"a"}`, routed: []string{"task"}, bad: "in place of task"},
		{name: "a routed name in another case", in: `{"Name":"a"}`, routed: []string{"uri", "name"},
			bad: `"Name" in place of name`},
		{name: "escaped name", in: `{"n\u0061me":"a"}`, bad: "escaped"},
		{name: "no object", in: `[]`, bad: "object is expected"},
		{name: "null", in: `null`, bad: "object is expected"},
		{name: "many members", in: `{"a":1` + manyMembers(MaxMembers-1) + `}`},
		{name: "too many members", in: `{"a":1` + manyMembers(MaxMembers) + `}`, bad: "too many"},
		{name: "what it quotes is harmless", in: "{\"a\u009b\":1,\"a\u009b\":1}", bad: `"a\u009b"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var in mcp.Raw
			if test.in != "" {
				in = mcp.Raw(test.in)
			}
			err := CheckObject(in, test.routed...)
			if test.bad == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if codeOf(err) != mcp.CodeInvalidParams || !strings.Contains(err.Error(), test.bad) {
				t.Errorf("got %v, want %q", err, test.bad)
			}
		})
	}
}

func TestNameOK(t *testing.T) {
	tests := []struct {
		in   string
		want bool
	}{
		{`"plain"`, true}, {`""`, true}, {`"del\u0065te"`, true}, {`"é\n\\u"`, true}, {`"\\ud800"`, true},
		{`"\ud83d\ude00"`, true}, {`"\uD83D\uDE00x"`, true},
		{`"a\ud800"`, false}, {`"\ud800\ud800"`, false}, {`"\ude00"`, false}, {`"\ud83dx"`, false}, {`"\ud83d\n"`, false},
		{`"\ud83d\\ude00"`, false},
		{`1`, false}, {``, false}, {`null`, false},
	}
	for _, test := range tests {
		if got := NameOK(mcp.Raw(test.in)); got != test.want {
			t.Errorf("%s: got %v, want %v", test.in, got, test.want)
		}
	}
}

func TestWholeText(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"x","b":"\\ud83d","c":"\ud83d\ude00"}`: ``,
		`{"a":"\ud83d"}`:                         `{"a":"\ufffd"}`,
		`["\ude00\ud83d\ud83d\ude00","\uD83Dx"]`: `["\ufffd\ufffd\ud83d\ude00","\ufffdx"]`,
	} {
		raw := mcp.Raw(in)
		got := WholeText(raw)
		switch {
		case string(raw) != in:
			t.Errorf("%s was changed to %s", in, raw)
		case want == "" && &got[0] != &raw[0], want != "" && string(got) != want:
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

func TestEscapedValue(t *testing.T) {
	in := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"del\u0065te"}}`)
	m, err := Scan(in)
	if err != nil {
		t.Fatal(err)
	}
	name, _ := m.Params.Member("name")
	if name.Text() != "delete" || !bytes.Contains(m.Params, []byte(`del\u0065te`)) {
		t.Errorf("%s says %q", name, name.Text())
	}
}

func TestScanBatch(t *testing.T) {
	request := `{"jsonrpc":"2.0","id":1,"method":"m"}`
	t.Run("each member for itself", func(t *testing.T) {
		messages, errs, err := ScanBatch([]byte(` [ ` + request + ` , 1, [` + request +
			`], {"jsonrpc":"2.0","id":2}, {"jsonrpc":"2.0","id":3,"result":{}} ] `))
		if err != nil || len(messages) != 5 || len(errs) != 5 {
			t.Fatalf("%v %v %v", messages, errs, err)
		}
		codes := []int{0, mcp.CodeInvalidRequest, mcp.CodeInvalidRequest, mcp.CodeInvalidRequest, 0}
		ids := []string{"1", "", "", "2", "3"}
		for i := range messages {
			if codeOf(errs[i]) != codes[i] || string(messages[i].ID) != ids[i] {
				t.Errorf("member %d: %s, %v", i, show(messages[i]), errs[i])
			}
		}
	})
	tests := []struct {
		name, in string
		code     int
	}{
		{"the longest", `[` + strings.Repeat(request+",", MaxBatch-1) + request + `]`, 0},
		{"too many", `[` + strings.Repeat(request+",", MaxBatch) + request + `]`, mcp.CodeInvalidRequest},
		{"empty", `[ ]`, mcp.CodeInvalidRequest},
		{"no array", request, mcp.CodeInvalidRequest},
		{"something after it", `[` + request + `]]`, mcp.CodeParse},
		{"not closed", `[` + request, mcp.CodeParse},
		{"a comma too many", `[` + request + `,]`, mcp.CodeParse},
		{"broken member", `[` + request + `,{]`, mcp.CodeParse},
		{"two documents", `[` + request + `][` + request + `]`, mcp.CodeParse},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, _, err := ScanBatch([]byte(test.in)); codeOf(err) != test.code || test.code == 0 && err != nil {
				t.Errorf("got %v, want %d", err, test.code)
			}
		})
	}
	for in, want := range map[string]bool{"[": true, " \n[": true, "{": false, "": false} {
		if IsBatch([]byte(in)) != want {
			t.Errorf("IsBatch(%q) is %v", in, !want)
		}
	}
}

func TestPeekID(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"first", `{"id":12,"method":"m","params":{"a":"`, "12"},
		{"later", ` {"jsonrpc":"2.0","x":{"id":1},"id":"a","par`, `"a"`},
		{"whole message", `{"jsonrpc":"2.0","id":5}`, "5"},
		{"cut in the id", `{"id":12`, ""},
		{"cut in a string", `{"id":"ab`, ""},
		{"after what was cut", `{"params":{"a":`, ""},
		{"no id", `{"id":null,"method":"m"}`, ""},
		{"no object", `[{"id":1}]`, ""},
		{"nothing", ``, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := string(PeekID([]byte(test.in))); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestTextObject(t *testing.T) {
	tests := []struct {
		name, text string
		ok         bool
	}{
		{"an object", `{"a":{"b":1}}`, true},
		{"space around it", " {\"a\":1}\n", true},
		{"nothing", ``, false},
		{"no object", `[1]`, false},
		{"more behind it", `{}, "id":2`, false},
		{"two", `{}{}`, false},
		{"cut", `{"a":`, false},
		{"too deep", strings.Repeat(`{"a":`, 300) + `1` + strings.Repeat(`}`, 300), false},
		{"no UTF-8", "{\"a\":\"\xff\"}", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := TextObject(tt.text)
			if (err == nil) != tt.ok || tt.ok && !got.IsObject() {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}
