package catalog

import (
	"errors"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// schemeUI is the scheme of MCP Apps. Clients look for it, as for mcp.SkillScheme, so the
// upstream's name comes right after such a scheme, not in front of it.
const schemeUI = "ui://"

var (
	errNoURI      = errors.New("the URI is empty or has control characters")
	errForeignURI = errors.New("the URI begins like those of another upstream")
	errOpenScheme = errors.New("the template does not begin with a literal scheme")
)

// uri returns the public form of a URI: "crm+file:///a", "ui://crm/page". Every byte is
// kept, and native reverses it.
func (n naming) uri(native string) string {
	if n.plain() {
		return native
	}
	if scheme := keptScheme(native); scheme != "" {
		return scheme + n.upstream + "/" + native[len(scheme):]
	}
	return n.upstream + "+" + native
}

// template returns the public form of a URI template (RFC 6570). Its expansions must be the
// public forms of the original's expansions; without a literal scheme that cannot be
// ensured.
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

// splitURI splits a public URI into the upstream's name and the original. ok is false for
// text that begins like a public URI but that uri makes for no upstream. tag is "" for any
// other text.
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

// sane reports whether a listed URI can be shown: it is not empty and has no control
// characters.
func sane(uri string) bool {
	for i := range len(uri) {
		if uri[i] < ' ' || uri[i] == 0x7f {
			return false
		}
	}
	return uri != ""
}
