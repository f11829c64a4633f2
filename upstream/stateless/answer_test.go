package stateless_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// A stateless server has no ids for URLs: an invented one must not pass for ours.
func TestAStatelessServerMakesUpAnID(t *testing.T) {
	f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		fake.Result(w, m, `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":`+
			`{"mode":"url","message":"m","url":"https://a.example/x","elicitationId":"theirs"}}}}`)
		return true
	})
	ask := fake.MustDo(t, fake.Start(t, upstream.Config{URL: f.URL}), fake.Asked("a")).Ask
	if ask == nil ||
		string(ask.Requests[0].Params) != `{"mode":"url","message":"fake asks: m","url":"https://a.example/x"}` {
		t.Errorf("asked %+v", ask)
	}
}

func TestRefusalsEndCallsOfStatelessServers(t *testing.T) {
	f := fake.New(t, false, nil)
	u := fake.Start(t, upstream.Config{URL: f.URL})
	fake.WantOK(t, u, fake.Asked("a"))
	c := fake.Asked("a")
	c.Round, c.Refused = mcp.NewRound(mcp.FrameServer, "s"), map[string]*mcp.Error{"q": mcp.Relayed(-1, "no", nil)}
	result := fake.MustDo(t, u, c).Result
	if failed, _ := result.Member("isError"); !failed.IsTrue() {
		t.Errorf("the result is %s", result)
	}
	c.Method = mcp.MethodResourcesRead
	_, err := fake.Do(t, u, c)
	fake.WantError(t, err, mcp.CodeInternal, mcp.ExecutedUnknown)
	if n := len(f.Requests("")) - len(f.Requests(mcp.MethodDiscover)); n != 1 {
		t.Errorf("the server got %d requests, want the first one only", n)
	}
}

func TestAStatelessServerHasNoSuchError(t *testing.T) {
	f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		fake.Failure(w, http.StatusOK, m, `{"code":-32042,"message":"go there","data":{"elicitations":[`+
			`{"mode":"url","message":"m","url":"https://a.example/x","elicitationId":"theirs"}]}}`)
		return true
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	_, err := fake.Do(t, u, fake.Asked("a"))
	fake.WantError(t, err, mcp.CodeInternal, mcp.ExecutedNo)
}
