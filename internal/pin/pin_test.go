package pin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{ "b" : 1.0, "a":[ true ,null] }`, `{"a":[true,null],"b":1.0}`},
		{`{"a":"\u00e9\/"}`, `{"a":"é/"}`},
		{`{"a":{"y":1,"x":{}}}`, `{"a":{"x":{},"y":1}}`},
		{`{"a":2,"a":1}`, `{"a":2,"a":1}`},      // nobody knows which one a client reads
		{`{"\u0061":1,"A":2}`, `{"A":2,"a":1}`}, // escaped names
		{`{"a":"<b>\u2028"}`, "{\"a\":\"<b>\u2028\"}"},
		{`[]`, `[]`},
		{`"text"`, `"text"`},
	} {
		got := Canonical(mcp.Raw(c.in))
		var a, b any
		if err := json.Unmarshal(got, &a); err != nil {
			t.Errorf("%s: %v: %s", c.in, err, got)
		}
		if err := json.Unmarshal([]byte(c.want), &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s became %s, another value than %s", c.in, got, c.want)
		}
		if DigestOf(mcp.Raw(c.in)) != DigestOf(mcp.Raw(c.want)) {
			t.Errorf("%s and %s differ", c.in, c.want)
		}
	}
	for _, c := range [][2]string{
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{`{"a":1}`, `{"a":1,"a":1}`},
		{`{"a":1}`, `{"a":1.0}`},
		{`["a","b"]`, `["b","a"]`},
		{`{"a":"b"}`, `{"a":"b\u200b"}`},
		{`"1"`, `1`},
	} {
		if DigestOf(mcp.Raw(c[0])) == DigestOf(mcp.Raw(c[1])) {
			t.Errorf("%s and %s are equal", c[0], c[1])
		}
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add(`{"b":[1,{"c":"\u00e9"}],"a":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		once := Canonical(mcp.Raw(strings.TrimSpace(text)))
		if twice := Canonical(once); string(twice) != string(once) {
			t.Errorf("%q is %q, and then %q", text, once, twice)
		}
		if !json.Valid(once) {
			t.Errorf("%q is %q", text, once)
		}
		Hidden(mcp.Raw(strings.TrimSpace(text)))
	})
}

func tool(name, description string) Definition {
	return Definition{Tools, name, Canonical(mcp.Object("name", mcp.String(name), "description", mcp.String(description)))}
}

func TestLock(t *testing.T) {
	lock := Lock{
		"crm": {tool("export", "Exports <all>."), tool("export", "Exports all & asks first."),
			{Instructions, "", mcp.Raw(`"Be kind."`)}},
		"erp": nil,
	}
	path := filepath.Join(t.TempDir(), "gatehouse.lock")
	if err := lock.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	for name := range lock {
		slices.SortFunc(lock[name], compare)
	}
	if diff := cmp.Diff(lock, read); diff != "" {
		t.Error(diff)
	}
	if again, err := read.Text(); err != nil || string(again) != string(text) {
		t.Errorf("written again it is %s, %v", again, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBadLock: a lock that is not whole approves nothing.
func TestBadLock(t *testing.T) {
	good, err := Lock{"crm": {tool("export", "Exports.")}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{`Exports.`, `Sends.`}:           "the digest is not that of the definition",
		{`"version": 1`, `"version": 2`}: "version 2: this gateway reads version 1",
		{`"tools"`, `"toools"`}:          `"toools" is none of`,
		{`"digest"`, `"digests"`}:        "unknown field",
		{`"version": 1,`, ``}:            "version 0",
		{"}\n  }\n}\n", "}\n  }\n}\n{}"}: "something follows it",
		{"}\n  }\n}\n", ""}:              "it is no lock file",
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Errorf("%q is not in it", change[0])
		}
		if lock, err := Read([]byte(bad)); err == nil || lock != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", change, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	good, err := Lock{"crm": {tool("export", "Exports."), {Instructions, "", mcp.Raw(`"x"`)}}}.Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Fuzz(func(t *testing.T, text string) {
		lock, err := Read([]byte(text))
		if err != nil {
			return
		}
		written, err := lock.Text()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(written)
		if err != nil || !cmp.Equal(lock, again) {
			t.Errorf("%v\n%s", err, cmp.Diff(lock, again))
		}
	})
}

func TestCompare(t *testing.T) {
	was := []Definition{tool("same", "x"), tool("changed", "x"), tool("gone", "x"), tool("two", "a"), tool("two", "b")}
	is := []Definition{tool("new", "x"), tool("same", "x"), tool("changed", "y"), tool("two", "b")}
	var got []string
	lock := Lock{"crm": slices.SortedFunc(slices.Values(was), compare)}
	for _, c := range Compare(was, is) {
		got = append(got, c.Word()+" "+c.Name)
		lock.Approve("crm", c)
	}
	if want := []string{"changed changed", "gone gone", "new new", "changed two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if left := Compare(lock["crm"], is); left != nil {
		t.Errorf("after all are approved, these are left: %v", left)
	}
}

func TestApproved(t *testing.T) {
	a := Lock{"crm": {
		tool("export", "one"), tool("export", "other"),
		{Skills, "billing", mcp.Raw(`{"uri":"skill://billing/SKILL.md"}`)},
	}}.Of("crm")
	check := func(raw string, differ []string, isNew, ok bool) {
		t.Helper()
		d, n, o := a.Check(Tools, mcp.Raw(raw).At("name").Text(), mcp.Raw(raw))
		if !slices.Equal(d, differ) || n != isNew || o != ok {
			t.Errorf("%s: %q %v %v, want %q %v %v", raw, d, n, o, differ, isNew, ok)
		}
	}
	check(`{"description":"other","name":"export"}`, nil, false, true)
	check(`{"description":"mine","name":"export"}`, []string{"description"}, false, false)
	check(`{"description":"other","name":"export","_meta":{}}`, []string{"_meta"}, false, false)
	check(`{"name":"export","name":"export","description":"one"}`, []string{"name"}, false, false)
	check(`{"name":"import"}`, nil, true, false)
	if !a.Has(Tools, "export") || a.Has(Prompts, "export") || !a.HasSkillAt("skill://billing/SKILL.md") ||
		a.HasSkillAt("") {
		t.Error("what is approved is not what was")
	}
	if none := (Lock{}).Of("crm"); none.Has(Tools, "export") || none.HasSkillAt("") {
		t.Error("nothing approves something")
	}
}

func TestDiff(t *testing.T) {
	old := mcp.Raw(`{"annotations":{"readOnlyHint":true},"description":"First.\nSecond.","name":"export"}`)
	now := mcp.Raw(`{"annotations":{"readOnlyHint":false},"description":"First.\nSec\u200bond.\u001b[2J","name":"export"}`)
	got := Change{Tools, "export", []mcp.Raw{old}, []mcp.Raw{Canonical(now)}}.Diff()
	want := `@@ -3,7 +3,7 @@
 description:
   First.
-  Second.
+  Sec<U+200B>ond.<U+001B>[2J
 annotations:
   {
-    "readOnlyHint": true
+    "readOnlyHint": false
   }`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
