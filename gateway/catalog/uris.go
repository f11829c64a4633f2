package catalog

import (
	"errors"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// schemeUI is that of MCP Apps. Clients look for it, as for mcp.SkillScheme: the upstream's
// name goes into the first place behind such a scheme, not in front.
const schemeUI = "ui://"

var (
	errNoURI      = errors.New("the URI is empty or has control characters")
	errForeignURI = errors.New("the URI begins like those of another upstream")
	errOpenScheme = errors.New("the template does not begin with a literal scheme")
)

// uri returns the public form of a URI: "crm+file:///a", "ui://crm/page". Every
// byte is kept, and native undoes it.
func (n naming) uri(native string) string {
	if n.plain() {
		return native
	}
	if scheme := keptScheme(native); scheme != "" {
		return scheme + n.upstream + "/" + native[len(scheme):]
	}
	return n.upstream + "+" + native
}

// template returns the public form of a URI template (RFC 6570). What a client makes
// of it must be the public form of what it would make of the original; without a
// literal scheme that cannot be told.
func (n naming) template(native string) (string, error) {
	if n.plain() {
		return native, nil
	}
	literal, _, expression := strings.Cut(native, "{")
	if expression && keptScheme(literal) == "" && (strings.HasPrefix(schemeUI, literal) || strings.HasPrefix(mcp.SkillScheme, literal)) {
		return "", errOpenScheme
	}
	return n.uri(native), nil
}

// splitURI reads a public URI: the upstream's name in it and the original. ok is
// false for text that no upstream's uri makes, though it may begin like it; tag is
// "" where it does not.
func splitURI(public string) (tag, native string, ok bool) {
	if scheme := keptScheme(public); scheme != "" {
		tag, rest, found := strings.Cut(public[len(scheme):], "/")
		return tag, scheme + rest, found
	}
	tag, native, found := strings.Cut(public, "+")
	if !found {
		return "", "", false
	}
	return tag, native, native != "" && keptScheme(native) == ""
}

func keptScheme(uri string) string {
	for _, scheme := range [...]string{schemeUI, mcp.SkillScheme} {
		if strings.HasPrefix(uri, scheme) {
			return scheme
		}
	}
	return ""
}

// sane reports whether a listed URI can be shown: not empty, without control
// characters.
func sane(uri string) bool {
	for i := range len(uri) {
		if uri[i] < ' ' || uri[i] == 0x7f {
			return false
		}
	}
	return uri != ""
}
