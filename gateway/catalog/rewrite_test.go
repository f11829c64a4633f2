package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestURIsInResults(t *testing.T) {
	tests := []struct {
		name, method, in, want string // want "": unchanged
	}{
		{"resource_link", mcp.MethodToolsCall,
			`{ "content" : [ {"type":"resource_link", "uri" : "file:///a","name":"a"} ,{"type":"text","text":"x"}],"isError":false }`,
			`{ "content" : [ {"type":"resource_link", "uri" : "crm+file:///a","name":"a"} ,{"type":"text","text":"x"}],"isError":false }`},
		{"embedded resource", mcp.MethodToolsCall,
			`{"content":[{"uri":"kept","type":"resource","resource":{"text":"{\"uri\":\"file:///a\"}","uri":"ui://page"}}]}`,
			`{"content":[{"uri":"kept","type":"resource","resource":{"text":"{\"uri\":\"file:///a\"}","uri":"ui://crm/page"}}]}`},
		{"escaped text", mcp.MethodToolsCall,
			`{"content":[{"type":"resource_link","uri":"file:\/\/\/a\u00e9"}]}`,
			`{"content":[{"type":"resource_link","uri":"crm+file:///aé"}]}`},
		{"page of a tool's result", mcp.MethodToolsCall,
			`{"content":[],"_meta":{"ui":{"resourceUri":"ui://page","csp":{"uri":"x"}},"ui/resourceUri":"ui://page"}}`,
			`{"content":[],"_meta":{"ui":{"resourceUri":"ui://crm/page","csp":{"uri":"x"}},"ui/resourceUri":"ui://crm/page"}}`},
		{"prompt message", mcp.MethodPromptsGet,
			`{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"file:///a","text":""}}},{"role":"user","content":{"type":"resource_link","uri":"skill://x/y"}}]}`,
			`{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"crm+file:///a","text":""}}},{"role":"user","content":{"type":"resource_link","uri":"skill://crm/x/y"}}]}`},
		{"read contents, several", mcp.MethodResourcesRead,
			`{"contents":[{"uri":"file:///a","blob":"AAAA"},{"uri":"file:///a/b","text":"\"uri\":\"file:///c\""}]}`,
			`{"contents":[{"uri":"crm+file:///a","blob":"AAAA"},{"uri":"crm+file:///a/b","text":"\"uri\":\"file:///c\""}]}`},
		{"an escaped name", mcp.MethodToolsCall,
			`{"content":[{"type":"resource_link","\u0075ri":"mod+file:///a"}]}`,
			`{"content":[{"type":"resource_link","\u0075ri":"crm+mod+file:///a"}]}`},
		{"a name with an escape at its end", mcp.MethodToolsCall,
			`{"content":[{"type":"resource_link","ur\u0069":"mod+file:///a"}]}`,
			`{"content":[{"type":"resource_link","ur\u0069":"crm+mod+file:///a"}]}`},
		{"another case", mcp.MethodToolsCall,
			`{"Content":[{"type":"resource_link","URI":"mod+file:///a"}]}`,
			`{"Content":[{"type":"resource_link","URI":"crm+mod+file:///a"}]}`},
		{"a URI twice", mcp.MethodToolsCall,
			`{"content":[{"type":"resource_link","uri":"file:///a","uri":"mod+file:///a"}]}`,
			`{"content":[{"type":"resource_link","uri":"crm+file:///a","uri":"crm+mod+file:///a"}]}`},
		{"a type twice", mcp.MethodToolsCall,
			`{"content":[{"type":"text","type":"resource_link","uri":"mod+file:///a"}]}`,
			`{"content":[{"type":"text","type":"resource_link","uri":"crm+mod+file:///a"}]}`},
		{"a type twice, the other way round", mcp.MethodToolsCall,
			`{"content":[{"type":"resource_link","type":"text","uri":"mod+file:///a"}]}`,
			`{"content":[{"type":"resource_link","type":"text","uri":"crm+mod+file:///a"}]}`},
		{"an escaped type", mcp.MethodToolsCall,
			`{"content":[{"\u0074ype":"resource","\u0072esource":{"uri":"mod+file:///a"}}]}`,
			`{"content":[{"\u0074ype":"resource","\u0072esource":{"uri":"crm+mod+file:///a"}}]}`},
		{"two types of link", mcp.MethodToolsCall,
			`{"content":[{"type":"resource_link","type":"resource","uri":"file:///a","resource":{"uri":"file:///b"}}]}`,
			`{"content":[{"type":"resource_link","type":"resource","uri":"crm+file:///a","resource":{"uri":"crm+file:///b"}}]}`},
		{"content twice", mcp.MethodToolsCall,
			`{"content":[],"\u0063ontent":[{"type":"resource_link","uri":"mod+file:///a"}]}`,
			`{"content":[],"\u0063ontent":[{"type":"resource_link","uri":"crm+mod+file:///a"}]}`},
		{"escaped contents", mcp.MethodResourcesRead,
			`{"contents":[{"\u0075ri":"mod+file:///a","text":""}]}`,
			`{"contents":[{"\u0075ri":"crm+mod+file:///a","text":""}]}`},
		{"an escaped page", mcp.MethodToolsCall,
			`{"content":[],"_meta":{"u\u0069":{"resource\u0055ri":"ui://mod/page"}}}`,
			`{"content":[],"_meta":{"u\u0069":{"resource\u0055ri":"ui://crm/mod/page"}}}`},
		{"an escaped _meta", mcp.MethodToolsCall,
			`{"content":[],"\u005fmeta":{"ui":{"resourceUri":"ui://mod/page"}}}`,
			`{"content":[],"\u005fmeta":{"ui":{"resourceUri":"ui://crm/mod/page"}}}`},
		{"_meta twice", mcp.MethodToolsCall,
			`{"content":[],"_meta":{},"_Meta":{"ui":{"resourceUri":"ui://mod/page"}}}`,
			`{"content":[],"_meta":{},"_Meta":{"ui":{"resourceUri":"ui://crm/mod/page"}}}`},
		{"escaped messages", mcp.MethodPromptsGet,
			`{"m\u0065ssages":[{"role":"user","c\u006fntent":{"type":"resource_link","ur\u0069":"mod+x://y"}}]}`,
			`{"m\u0065ssages":[{"role":"user","c\u006fntent":{"type":"resource_link","ur\u0069":"crm+mod+x://y"}}]}`},
		{"escapes in text", mcp.MethodToolsCall, `{"content":[{"type":"text","text":"\u0075ri \u00e9","caf\u00e9":1}]}`, ""},
		{"structuredContent", mcp.MethodToolsCall,
			`{"content":[],"structuredContent":{"uri":"file:///a","type":"resource_link"}}`, ""},
		{"icons and web sites", mcp.MethodToolsCall,
			`{"content":[{"type":"text","text":"a","icons":[{"src":"https://a/b","uri":"x"}],"websiteUrl":"https://a"}]}`, ""},
		{"text with a URI member", mcp.MethodToolsCall, `{"content":[{"type":"text","text":"a","uri":"file:///a"}]}`, ""},
		{"text that looks like it", mcp.MethodToolsCall,
			`{"content":[{"type":"text","text":"{\"type\":\"resource_link\",\"uri\":\"file:///a\"}"}]}`, ""},
		{"no string", mcp.MethodToolsCall,
			`{"content":[{"type":"resource_link","uri":7},{"type":"resource","resource":null}]}`, ""},
		{"content of another method", mcp.MethodResourcesRead,
			`{"content":[{"type":"resource_link","uri":"file:///a"}]}`, ""},
		{"completion values", mcp.MethodComplete,
			`{"completion":{"values":["file:///a"]},"content":[{"type":"resource_link","uri":"file:///a"}]}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := &mcp.Reply{Result: mcp.Raw(tt.in)}
			got := namingFor("crm", nil).reply(tt.method, in)
			if tt.want == "" {
				if got != in {
					t.Errorf("got %s, want it unchanged", got.Result)
				}
				return
			}
			if string(got.Result) != tt.want {
				t.Errorf("got  %s\nwant %s", got.Result, tt.want)
			}
			if string(in.Result) != tt.in {
				t.Error("the upstream's own reply was changed")
			}
			if same := (naming{upstream: "crm"}).reply(tt.method, in); same != in {
				t.Error("changed for an upstream without prefix")
			}
		})
	}
}

func TestURIsInAsks(t *testing.T) {
	link := `{"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"resource_link","uri":"file:///a"},{"type":"tool_result","content":{"type":"resource_link","uri":"deep"}}]}]}],"maxTokens":1}`
	ask := &mcp.Ask{Round: mcp.NewRound(mcp.FrameServer, "s"), Here: true, Requests: []mcp.InputRequest{
		{Key: "a", Method: mcp.MethodElicit,
			Params: mcp.Raw(`{"url":"https://a","messages":[{"content":{"type":"resource_link","uri":"x"}}]}`)},
		{Key: "b", Method: mcp.MethodCreateMessage, Params: mcp.Raw(link)},
	}}
	got := namingFor("crm", nil).reply(mcp.MethodToolsCall, &mcp.Reply{Ask: ask}).Ask
	if want := strings.Replace(link, "file:///a", "crm+file:///a", 1); string(got.Requests[1].Params) != want {
		t.Errorf("got  %s\nwant %s", got.Requests[1].Params, want)
	}
	if string(got.Requests[0].Params) != string(ask.Requests[0].Params) || got.Round.Top().Value != "s" || !got.Here ||
		got.Requests[1].Key != "b" {
		t.Errorf("something else changed: %+v", got)
	}
	if string(ask.Requests[1].Params) != link {
		t.Error("the upstream's own ask was changed")
	}
}

func TestForwarding(t *testing.T) {
	s := newServer("crm").tools("t").has(mcp.MethodPromptsList, `{"name":"p"}`)
	c := start(t, Source{Upstream: s})
	answer := func(reply *mcp.Reply, err error, events ...mcp.Event) func(string) {
		return func(method string) {
			s.on(method, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
				for _, e := range events {
					call.Notify(e)
				}
				return reply, err
			})
		}
	}
	t.Run("the URI in an error's data", func(t *testing.T) {
		answer(nil, &mcp.Error{Code: mcp.CodeResourceNotFound, Message: "no",
			Data: mcp.Raw(`{"a":1, "uri":"file:///x"}`)})(mcp.MethodResourcesRead)
		e := refused(t, c, call(mcp.MethodResourcesRead, "crm+file:///x"), mcp.CodeResourceNotFound)
		if string(e.Data) != `{"a":1, "uri":"crm+file:///x"}` || e.Message != "no" {
			t.Errorf("got %+v %s", e, e.Data)
		}
	})
	t.Run("an upstream's own error passes", func(t *testing.T) {
		own := &mcp.Error{Code: -31000, Message: "own", Data: mcp.Raw(`[1]`)}
		answer(nil, own)(mcp.MethodToolsCall)
		if e := refused(t, c, call(mcp.MethodToolsCall, "crm__t"), -31000); e != own {
			t.Errorf("got %+v", e)
		}
		answer(&mcp.Reply{Result: mcp.Raw(`{"content":[],"isError":true}`)}, nil)(mcp.MethodToolsCall)
		wantResult(t, do(t, c, call(mcp.MethodToolsCall, "crm__t")), `{"content":[],"isError":true}`)
	})
	t.Run("events", func(t *testing.T) {
		answer(&mcp.Reply{Result: mcp.Raw(`{}`)}, nil,
			mcp.Event{Method: mcp.NoteProgress,
				Params: mcp.Raw(`{"progressToken":1,"progress":1,"total":null,"uri":"file:///a"}`)},
			mcp.Event{Method: mcp.NoteProgress, Params: mcp.Raw(`{"progressToken":1,"progress":"1"}`)},
			mcp.Event{Method: mcp.NoteMessage, Params: mcp.Raw(`{"level":"info","data":1}`)},
			mcp.Event{Method: mcp.NoteMessage, Params: mcp.Raw(`{"logger":"db","level":"info","data":1}`)},
			mcp.Event{Method: mcp.NoteMessage, Params: mcp.Raw(`{"level":"info","data":1,"logger":"db","\u006cogger":"hr/x"}`)},
			mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Raw(`{"uri":"file:///a"}`)},
			mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Raw(`{"\u0075ri":"hr+file:///a"}`)},
			mcp.Event{Method: mcp.NoteToolsListChanged},
		)(mcp.MethodToolsCall)
		var got []string
		in := call(mcp.MethodToolsCall, "crm__t")
		in.Notify = func(e mcp.Event) { got = append(got, e.Method+" "+string(e.Params)) }
		do(t, c, in)
		want := []string{
			`notifications/progress {"progressToken":1,"progress":1,"uri":"file:///a"}`,
			`notifications/message {"level":"info","data":1,"logger":"crm"}`,
			`notifications/message {"logger":"crm/db","level":"info","data":1}`,
			`notifications/resources/updated {"uri":"crm+file:///a"}`,
			`notifications/resources/updated {"\u0075ri":"crm+hr+file:///a"}`,
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
	t.Run("the call goes out under its original name, and else as it came", func(t *testing.T) {
		s.on(mcp.MethodPromptsGet, nil)
		in := decided(t.Context(), c, call(mcp.MethodPromptsGet, "crm__p", `{"name":"crm__p","arguments":{"a":"1"}}`))
		in.LogLevel, in.Round, in.Caps = "debug", mcp.NewRound(mcp.FrameServer, "st"), mcp.Raw(`{"roots":{}}`)
		wantResult(t, do(t, c, in), `{"from":"crm","name":"p"}`)
		got := s.last(t, mcp.MethodPromptsGet).Clone()
		if got.Name != "p" || in.Name != "crm__p" {
			t.Errorf("names %q and %q", got.Name, in.Name)
		}
		got.Name, got.Notify = in.Name, nil
		want := in.Clone()
		want.Notify = nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestMetaOfTools(t *testing.T) {
	s := newServer("crm").has(mcp.MethodToolsList,
		`{"name":"t","inputSchema":{"type":"object"},"icons":[{"src":"https://a"}], "_meta" : {"ui":{"resourceUri":"ui://page","visibility":["app"]},"ui/resourceUri":"ui://page"}}`)
	c := start(t, Source{Upstream: s})
	got := string(do(t, c, call(mcp.MethodToolsList, "")).List.Items[0].Raw)
	want := `{"name":"crm__t","inputSchema":{"type":"object"},"icons":[{"src":"https://a"}], "_meta" : {"ui":{"resourceUri":"ui://crm/page","visibility":["app"]},"ui/resourceUri":"ui://crm/page"}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s = newServer("crm").has(mcp.MethodToolsList,
		`{"name":"t","inputSchema":{"type":"object"},"_Meta":{"ui":{"resourceUri":"ui://mod/page"}}}`)
	got = string(do(t, start(t, Source{Upstream: s}), call(mcp.MethodToolsList, "")).List.Items[0].Raw)
	if want = `{"name":"crm__t","inputSchema":{"type":"object"},"_Meta":{"ui":{"resourceUri":"ui://crm/mod/page"}}}`; got != want {
		t.Errorf("in another case: got  %s\nwant %s", got, want)
	}
}

func TestMentions(t *testing.T) {
	long := strings.Repeat("long text ", 100)
	for _, member := range []string{`"uri"`, `"resourceUri"`, `"ui/resourceUri"`} {
		for name, text := range map[string]string{
			"small":             `{` + member + `:1}`,
			"after a long text": `{"a":"` + long + `",` + member + `:1}`,
			"before one":        `{` + member + `:1,"a":"` + long + `"}`,
			"after many marks":  `{"a":"` + strings.Repeat(`\"`, 500) + `",` + member + `:1}`,
			"between":           strings.Repeat(`"a",`, 50) + long + member + long,
		} {
			if !mentions([]byte(text)) {
				t.Errorf("%s %s: not found", member, name)
			}
		}
	}
	for cut := range 40 { // wherever the search changes its method
		if text := strings.Repeat(`"`, cut) + strings.Repeat("x", 64*cut) + `"uri"`; !mentions([]byte(text)) {
			t.Errorf("not found after %d", cut)
		}
	}
	for _, text := range []string{"", "uri", `{"a":"` + long + `\"urinary"}`, `{"url":"` + long + `"}`} {
		if mentions([]byte(text)) {
			t.Errorf("found in %.40s", text)
		}
	}
}

// FuzzRewrite checks that the output is JSON and differs from the input only by the
// upstream's marks in front of URIs.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"type":"resource_link","uri":"file:///a"}]}`,
		`{"content":{"type":"resource","resource":{"uri":"ui://a","blob":""}},"_meta":{"ui/resourceUri":"ui://p","ui":{"resourceUri":"skill://x"}}}`,
		`{"messages":[{"content":[{"type":"tool_result","content":[{"type":"resource_link","uri":"a"}]}]}]}`,
		` {"contents": [ {"uri":"" } , {"uri":"b", "uri":"c"} ] } `,
	} {
		f.Add(seed)
	}
	methods := []string{mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead}
	n := naming{upstream: "zzmarkzz", prefix: "zzmarkzz__", max: 48}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) || strings.Contains(text, "zzmarkzz") {
			return
		}
		in := mcp.Raw(strings.TrimSpace(text))
		for _, method := range methods {
			out := n.reply(method, &mcp.Reply{Result: bytes.Clone(in)}).Result
			if !json.Valid(out) {
				t.Fatalf("%s: %s became %s", method, in, out)
			}
			if strings.Contains(text, `\`) {
				continue // an escaped URI comes back unescaped
			}
			back := strings.NewReplacer(`"zzmarkzz+`, `"`, `ui://zzmarkzz/`, `ui://`, `skill://zzmarkzz/`,
				`skill://`).Replace(string(out))
			if back != string(in) && json.Valid([]byte(back)) && validUTF8(string(in)) {
				t.Fatalf("%s: %s became %s", method, in, out)
			}
		}
	})
}

func validUTF8(s string) bool { return strings.ToValidUTF8(s, "") == s }

func BenchmarkRewrite(b *testing.B) {
	n := namingFor("crm", nil)
	big := strings.Repeat(`some \"quoted\" text with words `, 32<<10)
	cases := []struct{ name, result string }{
		{"small text", `{"content":[{"type":"text","text":"hello"}]}`},
		{"1 MiB text", `{"content":[{"type":"text","text":"` + big + `"}]}`},
		{"1 MiB text and a link", `{"content":[{"type":"text","text":"` + big +
			`"},{"type":"resource_link","uri":"file:///a"}]}`},
	}
	for _, bb := range cases {
		b.Run(bb.name, func(b *testing.B) {
			reply := &mcp.Reply{Result: mcp.Raw(bb.result)}
			b.SetBytes(int64(len(bb.result)))
			b.ReportAllocs()
			for b.Loop() {
				n.reply(mcp.MethodToolsCall, reply)
			}
		})
	}
}
