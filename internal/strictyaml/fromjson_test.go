package strictyaml

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestFromJSON(t *testing.T) {
	for value, want := range map[string]string{
		`{"b":1e3,"a":[1,{"x":null}],"n":123456789012345678901}`: "b: 1e3\na:\n    - 1\n    - x: null\nn: 123456789012345678901\n",
		`{"a":"true","b":"1","c":"x: y","d":"two\nlines\n"}`:     "a: \"true\"\nb: \"1\"\nc: 'x: y'\nd: |\n    two\n    lines\n",
		`[]`: "[]\n", `"text"`: "text\n",
	} {
		got, err := FromJSON([]byte(value))
		if err != nil || string(got) != want {
			t.Errorf("%s is\n%s\nwant\n%s%v", value, got, want, err)
		}
	}
}

// FuzzFromJSON: every value of JSON is the same in YAML.
func FuzzFromJSON(f *testing.F) {
	for _, seed := range []string{`{"a":"on"}`, `["~","null","0x1f","1_000","<<","=","2026-01-01"]`, `"\u0085\u2028x"`, `{"<<":1}`,
		`"\ud83d\ude00\u0000"`, `{"":[{},[]]}`, `"\u000A"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return
		}
		got, err := FromJSON([]byte(text))
		if strings.Count(text, "[")+strings.Count(text, "{") > mostNested {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var again any
		if err := yaml.Unmarshal(got, &again); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		back, err := json.Marshal(again)
		if err != nil {
			return // a number that only JSON has
		}
		var plain any
		if err := json.Unmarshal(back, &plain); err != nil || !reflect.DeepEqual(plain, value) {
			t.Errorf("%s is\n%s, which is %s", text, got, back)
		}
	})
}
