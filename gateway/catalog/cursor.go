package catalog

import (
	"encoding/binary"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// A cursor is the number of a page, sealed and bound to the user, the method and the
// generation of the list: whatever else comes back, an altered cursor, another
// user's or an upstream's, does not open, and neither does one of a list that has
// changed since.

func (c *Catalog) sealCursor(page int, user, method string, l *listing) string {
	return c.seal.Seal(binary.AppendUvarint(nil, uint64(page)), user, method, l.generation)
}

// openCursor returns the page that a cursor stands for.
func (c *Catalog) openCursor(cursor mcp.Raw, call *mcp.Call, l *listing) (int, error) {
	invalid := mcp.Errorf(mcp.CodeInvalidParams, "Invalid cursor: it is unknown, or the list has changed; start again without a cursor")
	sealed, ok := cursor.StringValue()
	if !ok {
		return 0, invalid
	}
	plain, err := c.seal.Open(sealed, call.Caller.User(), call.Method, l.generation)
	if err != nil {
		return 0, invalid
	}
	page, n := binary.Uvarint(plain)
	if n <= 0 || n != len(plain) || page >= uint64(len(l.pages)) {
		return 0, invalid
	}
	return int(page), nil
}
