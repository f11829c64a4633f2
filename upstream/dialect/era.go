package dialect

import (
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Era says what a server was found to speak. It is immutable.
type Era struct {
	// Rev is the revision to speak to a stateless server, or to offer to a stateful one.
	Rev *wire.Revision
	// SSE says that the server turned out to speak HTTP+SSE.
	SSE bool
	// Silent says that the era is a guess: the server had not answered in time.
	Silent bool
}

// Newest returns the newest stateless revision among the versions, nil for none.
func Newest(versions mcp.Raw) (best *wire.Revision) {
	versions.Elements(func(v mcp.Raw) bool {
		if rev := wire.Lookup(v.Text()); rev != nil && !rev.Stateful && (best == nil || rev.Name > best.Name) {
			best = rev
		}
		return true
	})
	return best
}

// Offered returns the newest stateless revision that a message offers, either as the result
// of server/discover or in the data of an error; nil for none.
func Offered(m wire.Message) *wire.Revision {
	if m.Result != nil {
		return Newest(m.Result.At("supportedVersions"))
	}
	return Newest(m.Error.At("data", "supported"))
}
