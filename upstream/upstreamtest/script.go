package upstreamtest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// tools are those of the server. The argument region is mirrored into a header in the
// stateless era. bad has an impossible annotation; stateless clients must drop it.
const tools = `{"tools":[
	{"name":"echo","inputSchema":{"type":"object"}},
	{"name":"region","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}},
	{"name":"steps","inputSchema":{"type":"object"}},
	{"name":"hang","inputSchema":{"type":"object"}},
	{"name":"ask","inputSchema":{"type":"object"}},
	{"name":"big","inputSchema":{"type":"object"}},
	{"name":"garbage","inputSchema":{"type":"object"}},
	{"name":"spoilt","inputSchema":{"type":"object"}},
	{"name":"quoted","inputSchema":{"type":"object"}},
	{"name":"die","inputSchema":{"type":"object"}},
	{"name":"bad","inputSchema":{"type":"object","properties":{"x":{"type":"number","x-mcp-header":"X"}}}}
]}`

const question = `{"mode":"form","message":"Which colour?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string"}}}}`

// script gives the server its tools and its introduction.
func (b *bench) script() {
	behave := map[string]func(*mcptest.Call){
		"echo":   func(c *mcptest.Call) { c.Text(argument(c, "text")) },
		"region": func(c *mcptest.Call) { c.Text(argument(c, "region")) },
		"steps": func(c *mcptest.Call) {
			for done := range 3 {
				c.Progress(done + 1)
			}
			c.Text("done")
		},
		"hang": func(c *mcptest.Call) { // until it is cancelled
			b.hangs <- struct{}{}
			c.Hang()
			b.ended <- struct{}{}
		},
		"ask": b.ask,
		"big": func(c *mcptest.Call) {
			var bytes int
			c.Param("arguments|bytes", &bytes)
			c.Text(strings.Repeat("x", bytes))
		},
		"garbage": func(c *mcptest.Call) { // before the result, or in its place
			if !c.Piped() {
				c.Status(http.StatusOK, "text/html", "<html>please log in</html>")
				return
			}
			c.Garbage("welcome\n\n: comment\n\nevent: chatter\ndata: {}\n\ndata: {\"half\":\n\nnonsense")
			c.Text("after garbage")
		},
		"spoilt": func(c *mcptest.Call) { c.Garbage(`{"result":{"v":NaN},"jsonrpc":"2.0","id":` + string(c.ID) + `}`) },
		"quoted": func(c *mcptest.Call) {
			c.Garbage(`{"jsonrpc":"2.0","id":"` + string(c.ID) +
				`","result":{"resultType":"complete","content":[{"type":"text","text":"ok"}]}}`)
		},
		"die": (*mcptest.Call).Die,
	}
	b.on("tools/list", func(c *mcptest.Call) { c.Result(tools) })
	b.on("tools/call", func(c *mcptest.Call) {
		var name string
		c.Param("name", &name)
		if do := behave[name]; do != nil {
			do(c)
			return
		}
		c.Error(-32602, "Unknown tool: "+name)
	})
	if b.stateful {
		b.on("initialize", func(c *mcptest.Call) { c.Welcome(`,"instructions":"be kind"`) })
		return
	}
	b.on("server/discover", func(c *mcptest.Call) {
		c.Result(`{"supportedVersions":["` + wire.Stateless().Name + `"],"capabilities":{"tools":{}},"instructions":"be kind",
			"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"scripted","version":"1"}}}`)
	})
}

// on sets what the server does with a method. In the stateless era it first checks what
// each request must have.
func (b *bench) on(method string, do func(*mcptest.Call)) {
	b.server.On(method, func(c *mcptest.Call) {
		switch why := b.misses(c); {
		case why == "":
			do(c)
		case c.Piped():
			c.Error(-32602, why)
		default:
			c.Status(http.StatusBadRequest, "application/json",
				`{"jsonrpc":"2.0","id":`+string(c.ID)+`,"error":{"code":-32020,"message":"`+why+`"}}`)
		}
	})
}

// misses returns what a stateless request should have and does not, "" for nothing.
func (b *bench) misses(c *mcptest.Call) string {
	if b.stateful {
		return ""
	}
	var version, name string
	var caps json.RawMessage
	if c.Param("_meta|io.modelcontextprotocol/protocolVersion", &version); version != wire.Stateless().Name {
		return "protocolVersion"
	}
	if !c.Param("_meta|io.modelcontextprotocol/clientCapabilities", &caps) {
		return "clientCapabilities"
	}
	if c.Piped() {
		return ""
	}
	c.Param("name", &name)
	want := map[string]string{"Mcp-Method": c.Method, "Mcp-Name": name, wire.HeaderVersion: version,
		"Mcp-Param-Region": argument(c, "region")}
	for header, value := range want {
		if c.Header.Get(header) != value {
			return header
		}
	}
	return ""
}

// argument returns an argument of a tool call that is a string, "" for none.
func argument(c *mcptest.Call, name string) (value string) {
	c.Param("arguments|"+name, &value)
	return value
}

// ask asks the user for a colour, as the era does it, and returns it.
func (b *bench) ask(c *mcptest.Call) {
	var answer struct {
		Action  string
		Content struct{ Colour string }
	}
	if b.stateful {
		var declared json.RawMessage
		if !b.server.Hello(c.Session).Param("capabilities|elicitation", &declared) {
			c.Error(-32603, "the client cannot be asked")
			return
		}
		m, err := c.Ask("elicitation/create", question)
		if err != nil {
			return // it was cancelled
		}
		_ = json.Unmarshal(m.Result, &answer) // unreadable data is not an answer
	} else if state := ""; !c.Param("requestState", &state) || state != "état 1" ||
		!c.Param("inputResponses|colour?", &answer) {
		c.Result(`{"resultType":"input_required","requestState":"état 1","inputRequests":{"colour?":{"method":"elicitation/create","params":` + question + `}}}`)
		return
	}
	c.Text(answer.Action + " " + answer.Content.Colour)
}
