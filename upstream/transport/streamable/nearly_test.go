package streamable_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestAnswersThatAreNearlyRight: what official clients overlook does not end a call, and of
// anything else its error says what it was.
func TestAnswersThatAreNearlyRight(t *testing.T) {
	const head = `{"jsonrpc":"2.0","id":`
	stream := func(text string) func(http.ResponseWriter, fake.Message) {
		return func(w http.ResponseWriter, m fake.Message) {
			fake.Events(w, strings.ReplaceAll(text, "ID", string(m.ID)))
		}
	}
	json := func(text string) func(http.ResponseWriter, fake.Message) {
		return func(w http.ResponseWriter, m fake.Message) {
			fake.Raw(w, "application/json", strings.ReplaceAll(text, "ID", string(m.ID)))
		}
	}
	const answer = "data: " + head + `ID,"result":` + fake.OK + "}\n\n"
	for name, tt := range map[string]struct {
		says    func(http.ResponseWriter, fake.Message)
		want    string // part of the error; "" for a result
		garbage int64
	}{
		"an event that is no JSON":         {stream("data: ping\n\n" + answer), "", 1},
		"half a message":                   {stream("data: {\"jsonrpc\":\n\n" + answer), "", 1},
		"an array that can be read partly": {stream("data: [1," + head + `ID,"result":` + fake.OK + "}]\n\n"), "", 1},
		"the answer to somebody else":      {stream("data: " + head + "1,\"result\":{}}\n\n" + answer), "", 0},
		"an id as text":                    {json(head + `"ID","result":` + fake.OK + "}"), "", 0},
		"an id as a decimal":               {json(head + `ID.0,"result":` + fake.OK + "}"), "", 0},
		"another id": {json(head + `1,"result":` + fake.OK + "}"),
			"an answer to another request, with the id 1)", 0},
		"another id on a stream": {stream("data: " + head + "\"x\",\"result\":{}}\n\n"),
			`an answer to another request, with the id "x"`, 0},
		"no JSON":             {json(head + `ID,"result":{"v":NaN}}`), "at byte", 1},
		"no JSON on a stream": {stream("data: " + head + "ID,\"result\":{\"v\":NaN}}\n\n" + answer), "at byte", 1},
		"no JSON, with the id last": {stream("data: {\"result\":{\"v\":\"\xff\"},\"id\":ID }\n\n" + answer),
			"is not UTF-8", 1},
		"a stream without an answer": {stream("data: ping\n\n"), "at byte", 1},
		"a page": {func(w http.ResponseWriter, _ fake.Message) {
			fake.Raw(w, "text/html", "<p>")
		}, "text/html", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
				if m.Method == mcp.MethodToolsCall {
					tt.says(w, m)
				}
				return m.Method == mcp.MethodToolsCall
			})
			u := f.Upstream(t, upstream.Config{})
			reply, err := fake.Do(t, u, fake.Tool("a"))
			switch {
			case tt.want != "":
				e := fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
				if !strings.Contains(e.Message, tt.want) {
					t.Errorf("error %s, want %s in it", e.Message, tt.want)
				}
			case err != nil || string(reply.Result) != fake.OK:
				t.Errorf("reply %+v, error %v", reply, err)
			}
			if n := u.Status().Garbage; n != tt.garbage {
				t.Errorf("%d documents that were no messages, want %d", n, tt.garbage)
			}
		})
	}
}
