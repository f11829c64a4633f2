package stateful_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestCodesThatWouldBeAboutUs: with these codes 2026-07-28 judges the client's request to
// us, which the server has never seen.
func TestCodesThatWouldBeAboutUs(t *testing.T) {
	for _, code := range []int{mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion} {
		words := fmt.Sprintf(`{"code":%d,"message":"m","data":{"supported":["2024-11-05"],"requiredCapabilities":{"elicitation":{}}}}`, code)
		failed := func(method, answer string) func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			return func(w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
				if m.Method != method {
					return false
				}
				if answer == "" {
					fake.Failure(w, 200, m, words)
				} else {
					fake.Result(w, m, answer)
				}
				return true
			}
		}
		task := bridged(mcp.MethodTasksGet, "t", "ann")
		for name, tt := range map[string]struct {
			stateful       bool
			method, answer string
			call           *mcp.Call
		}{
			"a server with sessions": {true, mcp.MethodToolsCall, "", fake.Asked("a")},
			"a bridged task":         {true, mcp.MethodTasksGet, "", task},
			"the result of a task":   {true, mcp.MethodTasksResult, "", inTask()},
			"a task that is polled":  {false, mcp.MethodTasksGet, "", inTask()},
			"what a task that is polled says": {false, mcp.MethodTasksGet,
				`{"taskId":"t","status":"failed","error":` + words + `}`, inTask()},
		} {
			synctest.Test(t, func(t *testing.T) {
				f := taskFake(t, tt.stateful, failed(tt.method, tt.answer))
				_, err := fake.Do(t, f.Upstream(t, upstream.Config{}), tt.call)
				e := fake.WantError(t, err, mcp.CodeInternal, "")
				if got, _ := e.Data.Member("upstreamCode"); string(got) != fmt.Sprint(code) || e.Message != "m" {
					t.Errorf("%s, %d: %v %s", name, code, e, e.Data)
				}
			})
		}
	}
}

// TestWhatAClientLacks: a server with sessions may report a missing capability with that
// code, too, if the client really lacks it.
func TestWhatAClientLacks(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			fake.Failure(w, status, m, `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"sampling":{}}}}`)
			return true
		})
		u := fake.Start(t, upstream.Config{URL: f.URL})
		for range 2 {
			_, err := fake.Do(t, u, fake.Tool("a"))
			fake.WantError(t, err, mcp.CodeMissingCapability, "")
		}
		if n := len(f.Requests(mcp.MethodInitialize)); n != 1 {
			t.Errorf("HTTP %d: %d sessions were begun", status, n)
		}
	}
}
