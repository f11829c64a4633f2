package catalog

import (
	"bytes"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// param is a parameter that clients of 2026-07-28 mirror into a header.
type param struct {
	wire.ParamHeader
	key string // its name in Call.ParamHeaders
}

// mirrored returns the mirrored parameters of a tool. An error means that its
// annotations break the rules, for which clients must drop it: so do we.
func mirrored(tool mcp.Raw) ([]param, error) {
	if !bytes.Contains(tool, []byte("x-mcp-header")) {
		return nil, nil
	}
	schema, _ := tool.Member("inputSchema")
	headers, err := wire.ParamHeaders(schema)
	if err != nil {
		return nil, err
	}
	params := make([]param, len(headers))
	for i, h := range headers {
		params[i] = param{h, strings.ToLower(h.Name)}
	}
	return params, nil
}

// checkParams compares the headers of a call with its arguments, by the schema that
// we list (2026-07-28 basic/transports/streamable-http#server-behavior-for-custom-headers).
// Headers that the schema does not know are nobody's business.
func checkParams(params []param, call *mcp.Call) error {
	if call.ParamHeaders == nil || len(params) == 0 {
		return nil
	}
	arguments, _ := call.Params.Member("arguments")
	for _, p := range params {
		sent, present := call.ParamHeaders[p.key]
		_, wanted := p.Value(arguments)
		switch {
		case wanted && !present:
			return mcp.Errorf(mcp.CodeHeaderMismatch, "Header Mcp-Param-%s is missing: it must repeat argument %s", p.Name, strings.Join(p.Path, "."))
		case !wanted && present:
			return mcp.Errorf(mcp.CodeHeaderMismatch, "Header Mcp-Param-%s must be absent: argument %s is null or absent", p.Name, strings.Join(p.Path, "."))
		case wanted && !p.Matches(sent, arguments):
			return mcp.Errorf(mcp.CodeHeaderMismatch, "Header Mcp-Param-%s does not match argument %s", p.Name, strings.Join(p.Path, "."))
		}
	}
	return nil
}
