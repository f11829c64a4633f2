package gateway

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// front is what stands in front of the server's names.
func (s *worldServer) front() string {
	if s.prefix != nil {
		return *s.prefix
	}
	return s.name + "__"
}

func (s *worldServer) short(public string) string { return strings.TrimPrefix(public, s.front()) }

func (s *worldServer) full(w *listWorld, k worldKind, native string) string {
	public, _ := w.rename(s, k, native)
	return public
}

// uri is the public form of a URI.
func (s *worldServer) uri(native string) string {
	scheme, rest, _ := strings.Cut(native, "://")
	switch {
	case s.front() == "":
		return native
	case scheme == "ui", scheme == "skill":
		return scheme + "://" + s.name + "/" + rest
	}
	return s.name + "+" + native
}

// skillFile is the URI of the file of a skill.
func skillFile(native string) string { return "skill://" + native + "/SKILL.md" }

// strip returns what a URI with the server's name in it is called there; "" for none. Clients may write
// schemes and hosts in capitals.
func (s *worldServer) strip(uri string) string {
	if rest, ok := cutFold(uri, "ui://"+s.name+"/"); ok {
		return "ui://" + rest
	}
	rest, ok := cutFold(uri, s.name+"+")
	if !ok || strings.HasPrefix(rest, "ui://") {
		return ""
	}
	return rest
}

// cutFold is strings.CutPrefix without case.
func cutFold(text, prefix string) (rest string, ok bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return text, false
	}
	return text[len(prefix):], true
}

var (
	worldOdd    = regexp.MustCompile(`[^!-~]`)
	worldUnsafe = regexp.MustCompile(`[^A-Za-z0-9_-]`)
)

// rename returns the public name of an item; false if it cannot have one.
func (w *listWorld) rename(s *worldServer, k worldKind, native string) (public string, ok bool) {
	if !k.named() {
		for _, other := range w.servers { // what looks like a URI of another server is none of its own
			if s.front() == "" && other.front() != "" && (strings.HasPrefix(native, other.name+"+") ||
				strings.HasPrefix(native, "ui://"+other.name+"/")) {
				return "", false
			}
		}
		return s.uri(native), true
	}
	if strings.ContainsFunc(native, unicode.IsControl) {
		return "", false
	}
	odd := worldOdd
	if k.list == mcp.MethodToolsList && s.front() != "" {
		odd = worldUnsafe
	}
	public = s.front() + odd.ReplaceAllString(native, "_")
	if public == s.front()+native && (s.front() == "" || len(public) <= worldNameLength) {
		return public, true
	}
	sum := sha256.Sum256([]byte(s.name + "\x00" + native))
	return fmt.Sprintf("%.*s_%x", worldNameLength-7, public, sum[:3]), true
}

// mayHave reports whether a server may have a public name: a name with the longer prefix of
// another is that one's.
func (w *listWorld) mayHave(s *worldServer, k worldKind, public string) bool {
	return !k.named() || !slices.ContainsFunc(w.servers, func(other *worldServer) bool {
		return len(other.front()) > len(s.front()) && strings.HasPrefix(public, other.front())
	})
}
