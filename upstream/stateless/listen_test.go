package stateless_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestListenStateless(t *testing.T) {
	end := make(chan struct{})
	f := fake.New(t, false, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodListen {
			return false
		}
		meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(m.ID) + `}`
		fake.Events(w, `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+meta+
			`,"notifications":{"toolsListChanged":true}}}`+"\n\n")
		fake.Events(w, `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+meta+`}}`+"\n\n")
		<-end
		fake.Events(w, fake.Event(m, "", `{"resultType":"complete"}`))
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	got := make(chan string, 5)
	done := make(chan *mcp.Reply, 1)
	go func() {
		reply, err := u.Handle(t.Context(), &mcp.Call{
			Method: mcp.MethodListen, Params: mcp.Raw(`{"notifications":{"toolsListChanged":true}}`),
			Notify: func(e mcp.Event) { got <- e.Method + string(e.Params) },
		})
		if err != nil {
			t.Error(err)
		}
		done <- reply
	}()
	for _, want := range []string{
		mcp.NoteAcknowledged + `{"notifications":{"toolsListChanged":true}}`, mcp.NoteToolsListChanged + `{}`,
	} {
		if e := <-got; e != want {
			t.Errorf("event %s, want %s", e, want)
		}
	}
	close(end)
	if reply := <-done; string(reply.Result) != `{}` {
		t.Errorf("reply %+v", reply)
	}
	want, _ := mcp.Raw(f.Requests(mcp.MethodListen)[0].Params).Member("notifications")
	if string(want) != `{"toolsListChanged":true}` {
		t.Errorf("asked for %s", want)
	}
}
