package exchange

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// exchangeOf returns an exchange that is complete enough for requestState.
func exchangeOf(e *Endpoint, user, client, params string) *Exchange {
	x := &Exchange{e: e, rev: wire.Stateless()}
	x.Call = mcp.Call{Method: mcp.MethodToolsCall, Name: "t", Params: mcp.Raw(params),
		Caller: mcp.NewCaller(mcp.Caller{Subject: user, ClientID: client})}
	return x
}

func TestState(t *testing.T) {
	e := newEndpoint(t)
	const asked = `{"name":"t","arguments":{"a":1,"b":[2]},"_meta":{"x":1}}`
	state := exchangeOf(e, "u", "c", asked).sealState(&mcp.Ask{Round: mcp.NewRound(mcp.FrameParked, "x"), Here: true})
	expired := func() string {
		x := exchangeOf(e, "u", "c", asked)
		old, err := json.Marshal(requestState{Method: x.Call.Method, Name: "t", Digest: paramsDigest(x.Call.Params),
			Expires: time.Now().Add(-time.Second).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		return e.Seal.Seal(old, stateBound, x.Call.Caller.User(), "c")
	}
	foreign, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	altered := []byte(state)
	altered[len(altered)/2] ^= 'A' ^ 'B'
	for _, c := range []struct{ name, user, client, params, state, reason string }{
		{"the same", "u", "c", asked, state, ""},
		{"another _meta", "u", "c",
			`{"_meta":{},"name":"t","arguments":{"a":1,"b":[2]},"inputResponses":{},"requestState":"x"}`, state, ""},
		{"white space", "u", "c", `{"name": "t", "arguments": {"a": 1, "b": [ 2 ]}}`, state, ""},
		{"other arguments", "u", "c", `{"name":"t","arguments":{"a":1,"b":[3]}}`, state, "mismatch"},
		{"no arguments", "u", "c", `{"name":"t"}`, state, "mismatch"},
		{"another user", "v", "c", asked, state, "invalid"},
		{"another client", "u", "d", asked, state, "invalid"},
		{"altered", "u", "c", asked, string(altered), "invalid"},
		{"empty", "u", "c", asked, "", "invalid"},
		{"expired", "u", "c", asked, expired(), "expired"},
		{"of another key", "u", "c", asked, foreign.Seal([]byte(`{}`), stateBound, mcp.Caller{Subject: "u"}.User(), "c"),
			"invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := exchangeOf(e, c.user, c.client, c.params)
			err := x.Retry(nil, mcp.String(c.state))
			if c.reason == "" {
				if err != nil || x.Call.Round.Top() != (mcp.Frame{Kind: mcp.FrameParked, Value: "x"}) {
					t.Errorf("round %s, %v", x.Call.Round, err)
				}
				return
			}
			e, ok := err.(*mcp.Error)
			if !ok || e.Code != mcp.CodeInvalidParams || string(e.Data) != `{"reason":"`+c.reason+`"}` || x.Call.Round != nil {
				t.Errorf("round %s, %v", x.Call.Round, err)
			}
		})
	}
	t.Run("what is sealed does not show", func(t *testing.T) {
		if strings.Contains(state, "server") {
			t.Error("the state can be read")
		}
	})
}

func TestDeclared(t *testing.T) {
	form := mcp.InputRequest{Method: mcp.MethodElicit, Params: mcp.Raw(`{"message":"m"}`)}
	url := mcp.InputRequest{Method: mcp.MethodElicit, Params: mcp.Raw(`{"mode":"url"}`)}
	sample := mcp.InputRequest{Method: mcp.MethodCreateMessage, Params: mcp.Raw(`{}`)}
	tools := mcp.InputRequest{Method: mcp.MethodCreateMessage, Params: mcp.Raw(`{"tools":[]}`)}
	for _, c := range []struct {
		name string
		caps string
		q    mcp.InputRequest
		want bool
	}{
		{"form, no modes", `{"elicitation":{}}`, form, true},
		{"form, declared", `{"elicitation":{"form":{}}}`, form, true},
		{"form, only url declared", `{"elicitation":{"url":{}}}`, form, false},
		{"url, no modes", `{"elicitation":{}}`, url, false},
		{"url, declared", `{"elicitation":{"url":{}}}`, url, true},
		{"null", `{"elicitation":null}`, form, false},
		{"sampling", `{"sampling":{}}`, sample, true},
		{"sampling with tools", `{"sampling":{}}`, tools, false},
		{"sampling with tools, declared", `{"sampling":{"tools":{}}}`, tools, true},
		{"roots", `{"roots":{}}`, mcp.InputRequest{Method: mcp.MethodRootsList}, true},
		{"no capabilities", ``, form, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if required, ok := declared(mcp.Raw(c.caps), c.q); ok != c.want || !required.IsObject() {
				t.Errorf("declared: %t, required %s", ok, required)
			}
		})
	}
}

// FuzzState opens what clients might send as requestState: only what was sealed is ever
// accepted.
func FuzzState(f *testing.F) {
	e := newEndpoint(f)
	x := exchangeOf(e, "u", "c", `{"name":"t"}`)
	good := x.sealState(&mcp.Ask{Round: mcp.NewRound(mcp.FrameServer, "s")})
	f.Add(good)
	f.Add("")
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, state string) {
		x := exchangeOf(e, "u", "c", `{"name":"t"}`)
		err := x.Retry(nil, mcp.String(state))
		if (err == nil) != (state == good) || (len(x.Call.Round) > 0) != (state == good) {
			t.Errorf("state %q: %v", state, err)
		}
	})
}
