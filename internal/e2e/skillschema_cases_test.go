package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const (
	goodEntry = `{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a","description":"d"},"resources":[{"uri":"skill://a/SKILL.md","digest":"sha256:` +
		`0000000000000000000000000000000000000000000000000000000000000000","size":1}]}`
	goodSkill = `{"name":"up__a","title":"A","description":"d","version":"1","tags":["x"],"arguments":[{"name":"n","required":true}],` +
		`"dependencies":{"tools":["t"],"prompts":[{"type":"ref/prompt","name":"p"}],"resources":[{"type":"ref/resource","uri":"x:y"}]}}`
	goodGot = `{"description":"d","instructions":"i","files":[{"name":"f","uri":"x:y","mimeType":"text/plain","required":false}]}`
	goodDir = `{"resources":[{"uri":"skill://a/b","name":"b","mimeType":"inode/directory"}]}`
)

// TestSkillSchemas: each schema accepts what is valid, and nothing that is wrong in one
// place.
func TestSkillSchemas(t *testing.T) {
	answer := func(result string) string { return `{"jsonrpc":"2.0","id":1,"result":` + result + `}` }
	list := func(entry string) string { return answer(`{"skills":[` + entry + `],"nextCursor":"x"}`) }
	ask := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"a","method":%q,"params":%s}`, method, params)
	}
	for _, tt := range []struct {
		document, definition, good string
		bad                        []string // "old=>new", each introducing one error
	}{
		{primitive, "ListSkillsRequest", ask("skills/list", `{"cursor":"x"}`),
			[]string{`"x"=>7`, `2.0=>1.0`, `skills/list=>skills/get`, `"id":"a",=>`}},
		{primitive, "ListSkillsResponse", list(goodSkill), []string{
			`"name":"up__a",=>`, `"up__a"=>7`, `"title":"A"=>"title":1`, `"version":"1"=>"version":1`, `["x"]=>"x"`,
			`"required":true=>"required":"true"`,
			`["t"]=>[{"name":"t"}]`, `ref/prompt=>ref/resource`, `"uri":"x:y"=>"url":"x:y"`, `"skills"=>"Skills"`,
			`"nextCursor":"x"=>"nextCursor":null`,
		}},
		{primitive, "GetSkillRequest", ask("skills/get", `{"name":"a","arguments":{"n":"v"}}`),
			[]string{`"name":"a"=>"uri":"a"`, `"v"=>7`, `{"n":"v"}=>[]`}},
		{primitive, "GetSkillResponse", answer(goodGot),
			[]string{`"instructions":"i",=>`, `"i"=>["i"]`, `"uri":"x:y",=>`, `"name":"f",=>`, `false=>0`}},
		{primitive, "SkillListChangedNotification",
			`{"jsonrpc":"2.0","method":"notifications/skills/list_changed","params":{}}`,
			[]string{`{}=>[]`, `"jsonrpc"=>"id":1,"jsonrpc"`, `list_changed=>changed`}},
		{primitive, "GetSkillByURIResponse", answer(`{"skill":` + goodSkill + `}`), []string{`"name":"up__a",=>`}},
		{extension, "ListSkillsRequest", ask("skills/list", `{}`), []string{`{}=>{"cursor":null}`}},
		{extension, "ListSkillsResponse", list(goodEntry), []string{
			`SKILL.md","front=>skill.md","front`, `skill://a/SKILL.md","front=>/SKILL.md","front`, `"name":"a",=>`,
			`"name":"a"=>"name":"A"`, `,"description":"d"=>`,
			`sha256:0=>sha256:`, `sha256:0=>sha256:A`, `,"size":1=>`, `"size":1=>"size":-1`, `"resources"=>"files"`,
			`"frontmatter"=>"matter"`, `"description":"d"=>"description":"d","metadata":{"a":1}`,
		}},
		{extension, "ListSkillsResponse", list(strings.Replace(goodEntry, goodEntry[strings.Index(goodEntry, "["):],
			`"dynamic"}`, 1)), []string{`"dynamic"=>"static"`, `"dynamic"=>[]`}},
		{extension, "GetSkillRequest", ask("skills/get", `{"uri":"skill://a/SKILL.md"}`),
			[]string{`"uri"=>"name"`, `/SKILL.md=>`}},
		{extension, "GetSkillResponse", answer(`{"skill":` + goodEntry + `}`),
			[]string{`"skill":=>"skills":`, `"skill":=>"nextCursor":"x","skill":`}},
		{extension, "ReadDirectoryRequest", ask("resources/directory/read", `{"uri":"skill://a"}`),
			[]string{`skill://a=>skill://a/`, `"uri"=>"url"`}},
		{extension, "ReadDirectoryResponse", answer(goodDir),
			[]string{`"name":"b",=>`, `skill://a/b=>skill://a/b/`, `"resources"=>"children"`}},
		{extension, "CachedResponse", answer(`{"resultType":"complete","ttlMs":0,"cacheScope":"private"}`),
			[]string{`"ttlMs":0,=>`, `private=>mine`, `complete=>input_required`}},
		{extension, "CompleteResponse", answer(`{"resultType":"complete"}`), []string{`"resultType":"complete"=>`}},
	} {
		if err := conforms(tt.document, tt.definition, []byte(tt.good)); err != nil {
			t.Error(err)
		}
		for _, change := range tt.bad {
			was, is, _ := strings.Cut(change, "=>")
			wrong := strings.Replace(tt.good, was, is, 1)
			if wrong == tt.good {
				t.Errorf("%s of %s has no %s", tt.definition, tt.document, was)
			}
			if conforms(tt.document, tt.definition, []byte(wrong)) == nil {
				t.Errorf("%s of %s takes %s", tt.definition, tt.document, wrong)
			}
		}
	}
}

// TestSkillWatch: invalid messages are noticed, in both kinds of body, for each message.
func TestSkillWatch(t *testing.T) {
	for _, tt := range []struct {
		name, request, answer string
		want                  int
	}{
		{"a list", `{"jsonrpc":"2.0","id":1,"method":"skills/list"}`, `{"jsonrpc":"2.0","id":1,"result":{"skills":[]}}`, 0},
		{"a list of another form", `{"jsonrpc":"2.0","id":1,"method":"skills/list"}`,
			`{"jsonrpc":"2.0","id":1,"result":{"skills":[` + goodSkill + `]}}`, 1},
		{"an entry for who declares the extension",
			`{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{"_meta":{"c":{"extensions":{"io.modelcontextprotocol/skills":{}}}}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"skills":[` + goodEntry + `]}}`, 0},
		{"an entry alone for others", `{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"skills":[` + goodEntry + `]}}`, 1},
		{"no hints", `{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{"_meta":{"v":"2026-07-28"}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"skills":[]}}`, 1},
		{"a bad request that is answered", `{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"name":1}}`,
			`{"jsonrpc":"2.0","id":1,"result":` + goodGot + `}`, 1},
		{"a bad request that is refused", `{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"name":1}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m"}}`, 0},
		{"by URI", `{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"uri":"skill://a/SKILL.md"}}`,
			`{"jsonrpc":"2.0","id":1,"result":` + goodGot + `}`, 1},
		{"a directory", `{"jsonrpc":"2.0","id":1,"method":"resources/directory/read","params":{"uri":"skill://a"}}`,
			`{"jsonrpc":"2.0","id":1,"result":{}}`, 1},
		{"another answer", `{"jsonrpc":"2.0","id":1,"method":"skills/list"}`, `{"jsonrpc":"2.0","id":2,"result":{}}`, 0},
		{"a notification", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			`{"jsonrpc":"2.0","method":"notifications/skills/list_changed","params":[]}`, 1},
	} {
		for kind, body := range map[string]string{"application/json": tt.answer,
			"text/event-stream": "id: 1\ndata: \n\nid: 2\ndata: " + tt.answer + "\n\n"} {
			var w skillWatch
			w.asked = make(map[string]skillRequest)
			w.next = roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{Header: http.Header{"Content-Type": {kind}},
					Body: io.NopCloser(bytes.NewReader([]byte(body)))}, nil
			})
			resp, err := (&http.Client{Transport: &w}).Post("http://127.0.0.1/", "application/json",
				strings.NewReader(tt.request))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != body {
				t.Errorf("%s: the client reads %q, %v", tt.name, got, err)
			}
			resp.Body.Close()
			if len(w.problems) != tt.want {
				t.Errorf("%s as %s: problems %q, want %d", tt.name, kind, w.problems, tt.want)
			}
		}
	}
}
