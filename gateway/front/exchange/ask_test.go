package exchange

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestOpenedURLs(t *testing.T) { synctest.Test(t, testOpenedURLs) }

func testOpenedURLs(t *testing.T) {
	q := func(url, id string) mcp.InputRequest {
		return mcp.InputRequest{Key: url, Method: mcp.MethodElicit,
			Params: mcp.Object("mode", mcp.String("url"), "url", mcp.String(url), "elicitationId", mcp.String(id))}
	}
	r := rounds{Exchange: &Exchange{}}
	o := &r.urls
	o.add([]mcp.InputRequest{q("a", "1"), q("b", "2"), q("c", "3"), {Key: "form", Method: mcp.MethodElicit}},
		map[string]mcp.Raw{
			"a": mcp.Raw(`{"action":"accept"}`), "b": mcp.Raw(`{"action":"accept"}`), "c": mcp.Raw(`{"action":"decline"}`),
			"form": mcp.Raw(`{"action":"accept"}`),
		})
	has := func(asked mcp.InputRequest) bool { return hasURL(o.requests, urlOf(asked)) }
	if !has(q("a", "")) || has(q("c", "")) || has(mcp.InputRequest{Key: "form", Method: mcp.MethodElicit}) {
		t.Errorf("opened %v", o.requests)
	}
	r.tellDone([]mcp.InputRequest{q("b", ""), q("x", "")})
	if len(o.requests) != 1 || urlOf(o.requests[0]) != "b" {
		t.Errorf("left %v", o.requests)
	}
	start, looks := time.Now(), 0
	for o.wait(t.Context(), 5*time.Minute) {
		looks++
	}
	if took := time.Since(start); took < 5*time.Minute || took > 5*time.Minute+lastLook || looks > 30 {
		t.Errorf("given up after %s and %d looks", took, looks)
	}
}
