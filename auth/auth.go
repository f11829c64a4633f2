package auth

import (
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Require puts the caller of each request into its context, where mcp.CallerFrom
// finds it. In mode none that is the same one, the zero mcp.Caller, for all.
func Require(next http.Handler) http.Handler {
	caller := mcp.NewCaller(mcp.Caller{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(mcp.WithCaller(r.Context(), caller)))
	})
}
