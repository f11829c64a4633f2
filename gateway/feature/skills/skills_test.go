package skills

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// sees is a Visibility of names that contain one of these strings.
type sees []string

func (s sees) SeesAll(*mcp.Caller) bool { return false }

func (s sees) Sees(_ context.Context, _ *mcp.Call, kind, public string) bool {
	for _, one := range s {
		if strings.Contains(kind+":"+public, one) {
			return true
		}
	}
	return false
}

const record = `{"name":"pb__a","title":"A","description":"d","version":"1","tags":["x"],"arguments":[],` +
	`"dependencies":{"tools":["crm__a","crm__b"],"prompts":[{"type":"ref/prompt","name":"crm__p"}],"resources":[{"type":"ref/resource","uri":"crm+x:y"}],"more":1},` +
	`"uri":"skill://pb/a/SKILL.md","frontmatter":{"name":"a","dependencies":1},"resources":"dynamic","_meta":{"k":1}}`

func answer(t *testing.T, visible Visibility, c *mcp.Call, reply *mcp.Reply) (*mcp.Reply, error) {
	t.Helper()
	next := mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return reply, nil })
	return Middleware(visible)(next).Handle(t.Context(), c)
}

func TestSpellings(t *testing.T) {
	everything := sees{""}
	with := func(deps string) string {
		start, end := strings.Index(record, `"dependencies"`), strings.Index(record, `"uri":"skill`)
		return record[:start] + deps + record[end:]
	}
	short := `{"uri":"skill://pb/a/SKILL.md","frontmatter":{"name":"a","dependencies":1},"resources":"dynamic","_meta":{"k":1}}`
	tests := []struct {
		name    string
		visible sees
		caps    string
		want    string
	}{
		{"all members for whoever declares nothing", everything, `{}`, record},
		{"those of the extension for whoever declares it", everything,
			`{"extensions":{"io.modelcontextprotocol/skills":{}}}`, short},
		{"a tool that is hidden", sees{"tools:crm__b", "prompts:", "resources:"}, ``,
			with(`"dependencies":{"tools":["crm__b"],"prompts":[{"type":"ref/prompt","name":"crm__p"}],"resources":[{"type":"ref/resource","uri":"crm+x:y"}],"more":1},`)},
		{"prompts and resources that are hidden", sees{"tools:"}, ``,
			with(`"dependencies":{"tools":["crm__a","crm__b"],"more":1},`)},
		{"nothing to be seen", sees{}, ``, with(`"dependencies":{"more":1},`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expires := time.Now()
			next := "c"
			list := &mcp.List{Items: []mcp.Item{{Name: "pb__a", Raw: mcp.Raw(record)}}, Next: &next, Expires: expires}
			reply, err := answer(t, tt.visible, &mcp.Call{Method: mcp.MethodSkillsList, Caps: mcp.Raw(tt.caps)},
				&mcp.Reply{List: list})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(reply.List.Items[0].Raw); got != tt.want || reply.List.Next != list.Next ||
				!reply.List.Expires.Equal(expires) {
				t.Errorf("list\n%s, want\n%s", got, tt.want)
			}
			if tt.want == record && reply.List != list {
				t.Error("a list in which nothing changes is made anew")
			}
			if hidden := strings.HasSuffix(tt.name, "hidden"); hidden != reply.List.Private {
				if tt.name != "nothing to be seen" {
					t.Errorf("private: %t", reply.List.Private)
				}
			}
			reply, err = answer(t, tt.visible, &mcp.Call{Method: mcp.MethodSkillsGet, Caps: mcp.Raw(tt.caps),
				Params: mcp.Raw(`{"uri":"x"}`)}, &mcp.Reply{Result: mcp.Object("skill", mcp.Raw(record))})
			if err != nil || string(reply.Result) != `{"skill":`+tt.want+`}` {
				t.Errorf("get %s, %v", reply.Result, err)
			}
		})
	}
	if string(list(t, record)) != record {
		t.Error("the record was changed in place")
	}
}

func list(t *testing.T, text string) mcp.Raw {
	t.Helper()
	reply, err := answer(t, sees{""}, &mcp.Call{Method: mcp.MethodSkillsList},
		&mcp.Reply{List: &mcp.List{Items: []mcp.Item{{Raw: mcp.Raw(text)}}}})
	if err != nil {
		t.Fatal(err)
	}
	return reply.List.Items[0].Raw
}

func TestGetByName(t *testing.T) {
	reply, err := answer(t, sees{"crm__a"}, &mcp.Call{Method: mcp.MethodSkillsGet, Params: mcp.Raw(`{"name":"x"}`)},
		&mcp.Reply{Result: mcp.Raw(`{"instructions":"crm__b","dependencies":{"tools":["crm__b"]},"files":[]}`)})
	if want := `{"instructions":"crm__b","files":[]}`; err != nil || string(reply.Result) != want {
		t.Errorf("got %s, %v, want %s", reply.Result, err, want)
	}
	for _, params := range []string{``, `{}`, `{"name":"a","uri":"b"}`} {
		if _, err := answer(t, sees{}, &mcp.Call{Method: mcp.MethodSkillsGet, Params: mcp.Raw(params)},
			&mcp.Reply{Result: mcp.Raw("{}")}); err == nil {
			t.Errorf("%s is answered", params)
		}
	}
	weird := `{"dependencies":"x"}`
	if got := string(list(t, weird)); got != `{}` {
		t.Errorf("got %s", got)
	}
}

// TestFilesThatAreHidden: hidden files appear in no list of files.
func TestFilesThatAreHidden(t *testing.T) {
	const files, less = `[{"uri":"skill://pb/a/SKILL.md"},{"uri":"skill://pb/a/secret"},{"uri":"x:y"},{}]`,
		`[{"uri":"skill://pb/a/SKILL.md"},{"uri":"x:y"}]`
	visible := sees{"SKILL.md", "x:y"}
	for _, tt := range []struct{ method, params, result, want string }{
		{mcp.MethodSkillsGet, `{"uri":"x"}`, `{"skill":{"resources":` + files + `}}`, `{"skill":{"resources":` + less + `}}`},
		{mcp.MethodSkillsGet, `{"name":"x"}`, `{"instructions":"i","files":` + files + `}`,
			`{"instructions":"i","files":` + less + `}`},
		{mcp.MethodDirectoryRead, `{"uri":"x"}`, `{"resources":` + files + `,"more":1}`,
			`{"resources":` + less + `,"more":1}`},
		{mcp.MethodDirectoryRead, `{"uri":"x"}`, `{"resources":[]}`, `{"resources":[]}`},
	} {
		reply, err := answer(t, visible, &mcp.Call{Method: tt.method, Params: mcp.Raw(tt.params)},
			&mcp.Reply{Result: mcp.Raw(tt.result)})
		if err != nil || string(reply.Result) != tt.want {
			t.Errorf("%s %s: got %s, %v, want %s", tt.method, tt.params, reply.Result, err, tt.want)
		}
	}
	hidden := &mcp.Reply{Result: mcp.Raw(`{"resources":[{"uri":"skill://pb/a/secret"}]}`)}
	if reply, err := answer(t, visible, &mcp.Call{Method: mcp.MethodDirectoryRead, Name: "x",
		Params: mcp.Raw(`{"uri":"x"}`)}, hidden); !mcp.HasCode(err, mcp.CodeInvalidParams) {
		t.Errorf("a directory of hidden files: got %+v, %v", reply, err)
	}
	list := &mcp.List{Items: []mcp.Item{{Raw: mcp.Raw(`{"resources":` + files + `}`)}}}
	reply, err := answer(t, visible, &mcp.Call{Method: mcp.MethodSkillsList}, &mcp.Reply{List: list})
	if err != nil || string(reply.List.Items[0].Raw) != `{"resources":`+less+`}` || !reply.List.Private {
		t.Errorf("listed %+v, %v", reply.List, err)
	}
}

func TestOthersPass(t *testing.T) {
	want := &mcp.Reply{Result: mcp.Raw(record)}
	if got, err := answer(t, sees{}, &mcp.Call{Method: mcp.MethodToolsCall}, want); err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
}
