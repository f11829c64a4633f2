package upstream_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestCursorsOfServers(t *testing.T) {
	f := fake.New(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodPromptsList {
			return false
		}
		if cursor, ok := mcp.Raw(m.Params).Member("cursor"); ok {
			fake.Result(w, m, `{"prompts":[{"name":"`+cursor.Text()+`second"}]}`)
			return true
		}
		fake.Result(w, m, `{"prompts":[{"name":"first"}],"nextCursor":""}`)
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	page := fake.MustDo(t, u, fake.List(mcp.MethodPromptsList)).List
	if page.Next == nil || *page.Next != "" || page.Items[0].Name != "first" {
		t.Fatalf("page %+v", page)
	}
	more := fake.List(mcp.MethodPromptsList)
	more.Params = mcp.Raw(`{"cursor":""}`)
	if page = fake.MustDo(t, u, more).List; page.Next != nil || page.Items[0].Name != "second" {
		t.Errorf("page %+v", page)
	}
}

// TestProgressOfNoCall: only messages with the call's own token, before its answer,
// are its progress.
func TestProgressOfNoCall(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		t.Run(fmt.Sprintf("stateful=%v", stateful), func(t *testing.T) {
			f := fake.New(t, stateful, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
				if m.Method != mcp.MethodToolsCall {
					return false
				}
				step := func(token, n string) string {
					return `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token +
						`,"progress":` + n + "}}\n\n"
				}
				id := string(m.ID)
				fake.Events(w, step("4711", "1")+step(`"`+id+`0"`, "2")+step("null", "3")+step(id, "4")+fake.Event(m, "",
					fake.OK)+step(id, "5"))
				return true
			})
			u := fake.Start(t, upstream.Config{URL: f.URL})
			c := fake.Tool("a")
			var told []string
			c.Notify = func(e mcp.Event) {
				n, _ := e.Params.Member("progress")
				told = append(told, string(n))
			}
			fake.WantOK(t, u, c)
			if got := strings.Join(told, " "); got != "4" {
				t.Errorf("told of %s, want 4 alone", got)
			}
		})
	}
}

// Ids of requests begin at a random number, so the ids of one upstream reveal nothing about
// those of another.
func TestIDsBeginAnywhere(t *testing.T) {
	seen := make(map[string]bool)
	for range 3 {
		f := fake.New(t, false, nil)
		fake.WantOK(t, f.Upstream(t, upstream.Config{}), fake.Tool("a"))
		seen[string(f.Requests(mcp.MethodToolsCall)[0].ID)] = true
	}
	if len(seen) < 2 { // three that are equal by chance happen once in 2^60
		t.Errorf("three upstreams begin with the ids %v", seen)
	}
}
