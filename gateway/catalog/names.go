package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// hashDigits is the number of hex digits at the end of a name that differs from its original.
const hashDigits = 6

var (
	errNoName = errors.New("the name is empty, or has characters that people cannot see")
	errMixed  = errors.New("the name has a word that mixes letters that look alike")
)

// plan holds the upstreams in the order of the configuration, and the naming of each.
type plan struct {
	cfg      Config
	namings  []naming
	tagged   map[string]int // upstreams with names that appear in their URIs
	private  bool           // some upstream is per user, so every list differs by user
	prefixes map[string]int // the first upstream with each prefix
	lengths  []int          // of the prefixes, each once, the longest first
	pageSize int
	views    map[string]*view.View // by name
}

// index fills in the prefixes and their lengths from the namings.
func (p *plan) index() {
	p.prefixes = make(map[string]int)
	for i, n := range p.namings {
		if _, known := p.prefixes[n.prefix]; !known {
			p.prefixes[n.prefix] = i
		}
		if !slices.Contains(p.lengths, len(n.prefix)) {
			p.lengths = append(p.lengths, len(n.prefix))
		}
	}
	slices.Sort(p.lengths)
	slices.Reverse(p.lengths)
}

// viewOf returns the view with the endpoint of a call, nil for none.
func (p *plan) viewOf(call *mcp.Call) *view.View { return p.views[call.Caller.View] }

// owner returns the upstream that a public name belongs to. A name of a tool, prompt or skill
// belongs to the upstream with the longest prefix that the name begins with, whether that upstream
// has it or not, so that no other can take its place while it is down. URIs are distinguished
// before (see publicName).
func (p *plan) owner(k kind, public string, has int) int {
	if k != tools && k != prompts && k != skills {
		return has
	}
	if other := p.longest(public); other >= 0 && len(p.namings[other].prefix) > len(p.namings[has].prefix) {
		return other
	}
	return has
}

// longest returns the first upstream with the longest prefix that a public name begins with, -1 for none.
func (p *plan) longest(public string) int {
	for _, length := range p.lengths {
		if length <= len(public) {
			if owner, ok := p.prefixes[public[:length]]; ok {
				return owner
			}
		}
	}
	return -1
}

// naming makes the public names and URIs of one upstream. It depends only on the
// configuration: other upstreams change nothing, so a name keeps its meaning for ever.
type naming struct {
	upstream string // the configured name, never what the server calls itself
	prefix   string // "": names and URIs stay unchanged
	max      int    // length of the longest public name
	skillDir bool   // see Source.SkillDir
	signInAt string // see Source.SignInAt
}

// newNaming checks that the prefix makes valid names.
func newNaming(cfg Config, upstream string, prefix *string) (naming, error) {
	n := naming{upstream: upstream, prefix: upstream + cfg.Separator, max: cfg.MaxLength}
	if prefix != nil {
		n.prefix = *prefix
	}
	switch {
	case !nameSafe(n.prefix):
		return n, fmt.Errorf("prefix: %q: want A-Z a-z 0-9 _ -", n.prefix)
	case len(n.prefix) > n.max/2:
		return n, fmt.Errorf("prefix: %q leaves too little of the %d characters of naming.max_length: set a shorter prefix",
			n.prefix, n.max)
	}
	return n, nil
}

// plain reports whether names and URIs of this upstream stay unchanged.
func (n naming) plain() bool { return n.prefix == "" }

// tool returns the public name of a tool. Models accept fewer characters in names than the
// specification allows. If one is replaced, the hash keeps different names different.
func (n naming) tool(native string) (string, error) {
	return n.name(native, func(r rune) bool { return n.plain() && printable(r) || r <= '~' && isNameByte(byte(r)) })
}

// prompt returns the public name of a prompt or skill. The specifications do not restrict their
// characters: one that could be taken for another one is replaced.
func (n naming) prompt(native string) (string, error) { return n.name(native, printable) }

// name returns a public name, in which characters that are not kept are replaced.
func (n naming) name(native string, keep func(rune) bool) (string, error) {
	if native == "" || pin.Visible(native) != native ||
		strings.ContainsFunc(native, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }) {
		return "", errNoName
	}
	if slices.ContainsFunc(strings.Fields(native), pin.Mixed) {
		return "", errMixed // it may pass for a name that policy denies
	}
	public := strings.Map(func(r rune) rune {
		if !keep(r) {
			return '_'
		}
		return r
	}, native)
	if n.plain() && public == native {
		return native, nil
	}
	return n.closed(n.prefix+public, native, public != native), nil
}

// target returns the target that policy decides on for an item of this upstream.
func (n naming) target(k kind, native string) mcp.Target {
	return mcp.Target{Kind: k.policyKind(), Upstream: n.upstream, Name: native, Template: k == templates}
}

// closed appends the hash of the original to a name that was changed or has to be cut.
func (n naming) closed(public, native string, changed bool) string {
	if !changed && len(public) <= n.max {
		return public
	}
	sum := sha256.Sum256([]byte(n.upstream + "\x00" + native))
	return public[:min(len(public), n.max-1-hashDigits)] + "_" + hex.EncodeToString(sum[:])[:hashDigits]
}

// mayBeClosed reports whether closed may have made a public name, so that the original
// cannot be read from it.
func mayBeClosed(public string) bool {
	i := len(public) - hashDigits - 1
	return i >= 0 && public[i] == '_' && strings.Trim(public[i+1:], "0123456789abcdef") == ""
}

// printable reports whether a character is printable ASCII and no space: others may look like
// something else.
func printable(r rune) bool { return r > ' ' && r <= '~' }

// nameSafe reports whether every model and client accepts the characters in a name.
func nameSafe(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

func isNameByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// schemeUI is the scheme of MCP Apps. Clients look for it, as for mcp.SkillScheme, so the
// upstream's name comes right after such a scheme, not in front of it.
const schemeUI = "ui://"

var (
	errNoURI      = errors.New("the URI is empty or has control characters")
	errBadURI     = errors.New("the URI has no scheme, or a host or port that not every client can read")
	errForeignURI = errors.New("the URI begins like those of another upstream")
	errOpenScheme = errors.New("the template does not begin with a literal scheme")
)

// uri returns the public form of a URI: "crm+file:///a", "ui://crm/page". Every byte is
// kept, and splitURI reverses it. Clients may write schemes and hosts in lower case (RFC 3986
// 6.2.2.1), so the upstream's name is.
func (n naming) uri(native string) string {
	if n.plain() {
		return native
	}
	tag := strings.ToLower(n.upstream)
	if scheme := keptScheme(native); scheme != "" {
		return scheme + tag + "/" + native[len(scheme):]
	}
	return tag + "+" + native
}

// template returns the public form of a URI template (RFC 6570). Its expansions must be the
// public forms of the original's expansions; without a literal scheme that cannot be
// ensured.
func (n naming) template(native string) (string, error) {
	if n.plain() {
		return native, nil
	}
	literal, _, expression := strings.Cut(native, "{")
	if expression && keptScheme(literal) == "" &&
		(strings.HasPrefix(schemeUI, literal) || strings.HasPrefix(mcp.SkillScheme, literal)) {
		return "", errOpenScheme
	}
	return n.uri(native), nil
}

// splitURI splits a public URI into the upstream's name, in lower case, and the original. ok is
// false for text that begins like a public URI but that uri makes for no upstream. tag is "" for
// any other text.
func splitURI(public string) (tag, native string, ok bool) {
	if scheme := keptScheme(lowerScheme(public)); scheme != "" {
		tag, rest, found := strings.Cut(public[len(scheme):], "/")
		return strings.ToLower(tag), scheme + rest, found
	}
	tag, native, found := strings.Cut(public, "+")
	if !found {
		return "", "", false
	}
	return strings.ToLower(tag), native, native != "" && keptScheme(native) == ""
}

// lowerScheme returns a URI with its scheme in lower case.
func lowerScheme(uri string) string {
	scheme, _, _ := strings.Cut(uri, ":")
	return strings.ToLower(scheme) + uri[len(scheme):]
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

const (
	defaultSeparator = "__"
	defaultMaxLength = 48
	minMaxLength     = 24
	maxMaxLength     = 128
	maxSeparator     = 8
	// maxOwnInstructions bounds the operator's text, in bytes.
	maxOwnInstructions = 4 << 10
)

// Config says how names of different upstreams are distinguished. The zero Config is the default. A
// reload with other values renames items: clients hear that the lists changed.
type Config struct {
	// Separator stands between an upstream's name and the name of a tool or prompt, if the
	// upstream has no prefix of its own. At most 8 of A-Z a-z 0-9 _ -. Default "__".
	Separator string `yaml:"separator"`
	// MaxLength is the length of the longest public name of a tool or prompt, from 24 to
	// 128. Longer names are cut and end with a hash. Many clients add a prefix of their
	// own, and models allow at most 64 characters. Default 48.
	MaxLength int `yaml:"max_length"`
	// Instructions is a text for models that precedes the instructions of the upstreams, at most 4096 bytes.
	// Some clients read only the first 2 KB of all instructions (docs/clients.md#limits). Default "".
	Instructions string `yaml:"instructions"`
}

// Validate reports all mistakes in the configuration.
func (c Config) Validate() error {
	var found problems.List
	found.When(len(c.Separator) > maxSeparator || !nameSafe(c.Separator),
		"separator: %q: want at most %d of A-Z a-z 0-9 _ -", c.Separator, maxSeparator)
	found.When(c.MaxLength != 0 && (c.MaxLength < minMaxLength || c.MaxLength > maxMaxLength),
		"max_length: %d: want %d to %d", c.MaxLength, minMaxLength, maxMaxLength)
	found.When(len(c.Instructions) > maxOwnInstructions,
		"instructions: %d bytes: want at most %d", len(c.Instructions), maxOwnInstructions)
	return found.Err()
}

// WithDefaults fills in what was left out.
func (c Config) WithDefaults() Config {
	if c.Separator == "" {
		c.Separator = defaultSeparator
	}
	if c.MaxLength == 0 {
		c.MaxLength = defaultMaxLength
	}
	return c
}

// Prefix returns the prefix of the names of an upstream's tools and prompts: own or, if
// that is nil, the default. The error says why names with it are invalid.
func (c Config) Prefix(upstream string, own *string) (string, error) {
	n, err := newNaming(c.WithDefaults(), upstream, own)
	return n.prefix, err
}
