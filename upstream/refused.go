package upstream

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// inOurWords returns an error with which a server refused a call as the inner language
// has it.
func (u *Upstream) inOurWords(c *mcp.Call, err error) error {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || !mcp.CanAsk(c.Method) {
		return err
	}
	data := e.Data
	if !data.IsObject() {
		data = nil
	}
	switch {
	case e.Code == mcp.CodeResourceNotFound && c.Method == mcp.MethodResourcesRead:
		if _, ok := data.Member("uri"); !ok {
			data = data.Edit(mcp.Edit{Name: "uri", Value: mcp.String(c.Name)})
		}
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: e.Message, Data: data}
	case e.Code == mcp.CodeMethodNotFound:
		// It is this server that does not know the method: the gateway does.
		return &mcp.Error{Code: e.Code, Message: e.Message, Data: data.Edit(mcp.Edit{Name: "upstream", Value: mcp.String(u.cfg.Name)})}
	}
	return err
}
