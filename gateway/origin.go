package gateway

import (
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// mostAgent bounds the kept part of User-Agent, in bytes.
const mostAgent = 256

// originOf returns the origin of a request, for records and the log.
func originOf(r *http.Request) mcp.Origin {
	return mcp.Origin{Address: doorway.Client(r), Agent: agentOf(r)}
}

// withOrigin adds the origin of each request to its context.
func withOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(mcp.WithOrigin(r.Context(), originOf(r))))
	})
}

// agentOf returns User-Agent as far as it is printable ASCII. It returns "" if a word of it, or the
// whole, is a part of the credentials: records never have any.
func agentOf(r *http.Request) string {
	agent := r.UserAgent()
	agent = agent[:min(len(agent), mostAgent)]
	for _, proof := range r.Header["Authorization"] {
		for word := range strings.FieldsFuncSeq(agent, func(c rune) bool { return strings.ContainsRune(" /;,()", c) }) {
			if len(word) >= fewLetters && strings.Contains(proof, word) {
				return ""
			}
		}
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, agent)
}

// fewLetters is the length of words that may be in any credential.
const fewLetters = 6
