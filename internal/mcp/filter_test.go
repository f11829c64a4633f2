package mcp

import (
	"errors"
	"slices"
	"strconv"
	"testing"
)

func TestFilter(t *testing.T) {
	var many Raw
	for i := range MaxFiltered + 1 {
		many = append(strconv.AppendQuote(many, strconv.Itoa(i)), ',')
	}
	tests := []struct{ name, filter, want, wrong string }{
		{name: "nothing", filter: `{}`, want: `{}`},
		{name: "all, in our order",
			filter: `{"taskIds":["t"],"skillsListChanged":true,"resourceSubscriptions":["b:1","a:1"],"toolsListChanged":true,"resourcesListChanged":true,"promptsListChanged":true}`,
			want:   `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"skillsListChanged":true,"resourceSubscriptions":["b:1","a:1"],"taskIds":["t"]}`},
		{name: "what is not asked for",
			filter: `{"toolsListChanged":false,"promptsListChanged":1,"resourceSubscriptions":[],"taskIds":[]}`, want: `{}`},
		{name: "what is not known", filter: `{"x":["a"],"toolsListChanged":true}`, want: `{"toolsListChanged":true}`},
		{name: "null is absent",
			filter: `{"resourceSubscriptions":null,"taskIds":null,"promptsListChanged":null,"toolsListChanged":true}`, want: `{"toolsListChanged":true}`},
		{name: "twice", filter: `{"resourceSubscriptions":["a:1","a:2","a:1","a:\u0031"]}`,
			want: `{"resourceSubscriptions":["a:1","a:2"]}`},
		{name: "no object", filter: `[]`, want: `{}`, wrong: "Invalid params: notifications is no object"},
		{name: "no array", filter: `{"taskIds":1,"toolsListChanged":true}`, want: `{"toolsListChanged":true}`,
			wrong: "Invalid params: taskIds is no array"},
		{name: "no string", filter: `{"resourceSubscriptions":["a:1",2,"a:3"]}`,
			want: `{"resourceSubscriptions":["a:1","a:3"]}`, wrong: "Invalid params: what is in resourceSubscriptions is no string"},
		{name: "too many", filter: `{"taskIds":[` + string(many) + `"x"]}`, wrong: "Invalid params: more than 1000 taskIds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := FilterOf(Object("notifications", Raw(tt.filter)))
			if e, _ := errors.AsType[*Error](err); (e != nil) != (tt.wrong != "") ||
				e != nil && (e.Message != tt.wrong || e.Code != CodeInvalidParams) {
				t.Errorf("got %v, want %q", err, tt.wrong)
			}
			if got, _ := f.In(Raw(`{"_meta":{}}`)).Member("notifications"); tt.want != "" && string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if _, err := FilterOf(nil); err == nil {
		t.Error("params without a filter have one")
	}
}

func TestFilterLets(t *testing.T) {
	f := Filter{Lists: ToolLists | ResourceLists, URIs: []string{"a:1"}}
	for note, want := range map[string]bool{
		NoteToolsListChanged: true, NotePromptsListChanged: false, NoteResourcesListChanged: true,
		NoteSkillsListChanged: false,
		NoteResourceUpdated:   true, NoteTask: false, NoteMessage: false, NoteAcknowledged: false,
	} {
		if f.Lets(note) != want {
			t.Errorf("%s: want %t", note, want)
		}
	}
	var missed []string
	for _, e := range f.Missed() {
		missed = append(missed, e.Method+string(e.Params))
	}
	if want := []string{NoteToolsListChanged + `{}`, NoteResourcesListChanged + `{}`,
		NoteResourceUpdated + `{"uri":"a:1"}`}; !slices.Equal(missed, want) {
		t.Errorf("missed %q", missed)
	}
}

func TestLists(t *testing.T) {
	if got, want := (ResourceLists | SkillLists).Methods(), []string{MethodResourcesList, MethodResourceTemplatesList,
		MethodSkillsList}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for method, want := range map[string]Lists{MethodResourceTemplatesList: ResourceLists, MethodToolsList: ToolLists,
		MethodToolsCall: 0, "": 0} {
		if got := ListsRead(method); got != want {
			t.Errorf("%q: got %b", method, got)
		}
	}
}

// Where the pages of a list end makes no difference, what is on them and in which order does.
func TestListSum(t *testing.T) {
	sum := func(pages ...[]string) (s ListSum) {
		for _, page := range pages {
			l := &List{}
			for _, item := range page {
				l.Items = append(l.Items, Item{Raw: Raw(item)})
			}
			s = s.Add(l)
		}
		return s
	}
	all := sum([]string{"1", "2", "3"})
	for _, same := range []ListSum{sum([]string{"1"}, []string{"2", "3"}), sum([]string{"1", "2"}, nil, []string{"3"})} {
		if same != all {
			t.Error("the same items make two sums")
		}
	}
	for _, other := range []ListSum{0, sum([]string{"1", "3", "2"}), sum([]string{"1", "2"}),
		sum([]string{"1", "2", "3", "3"}), sum([]string{"1", "2"}).Then().Add(&List{Items: []Item{{Raw: Raw("3")}}})} {
		if other == all {
			t.Error("two lists make the same sum")
		}
	}
}
