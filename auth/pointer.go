package auth

import (
	"errors"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// claimAt returns the claim with a configured name: a member, or the target of a JSON Pointer
// through objects.
func claimAt(claims mcp.Raw, where string) (mcp.Raw, bool) {
	if !strings.HasPrefix(where, "/") {
		return claims.Member(where)
	}
	for token := range strings.SplitSeq(where[1:], "/") {
		next, ok := claims.Member(pointerUnescape.Replace(token))
		if !ok {
			return nil, false
		}
		claims = next
	}
	return claims, true
}

// pointerUnescape decodes a reference token (RFC 6901 §4).
var pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")

// checkPointer refuses invalid JSON Pointers.
func checkPointer(where string) error {
	if !strings.HasPrefix(where, "/") {
		return nil
	}
	plain := strings.NewReplacer("~0", "", "~1", "").Replace(where)
	if strings.Contains(plain, "~") {
		return errors.New("in a JSON Pointer, ~ is written ~0 and / is written ~1")
	}
	return nil
}
