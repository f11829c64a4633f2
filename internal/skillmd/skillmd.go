// Package skillmd knows the file SKILL.md, which makes a directory an Agent Skill.
//
// It owns the rules of the format (agentskills specification), the frontmatter as JSON, the
// inner record of a skill (internal/mcp/skill.go) and its limits. It leaves the source of files
// to upstream/skilldir and upstream/skills, and what is withheld of other people's records to
// gateway/catalog. It does no I/O and starts no goroutines.
package skillmd

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Limits of fields, in characters (agentskills specification).
const (
	MaxName          = 64
	MaxDescription   = 1024
	MaxCompatibility = 500
)

// Limits of a skill. Every client has to take MaxFiles files of MaxBytes bytes together
// (SEP-2640, Limits); MaxText bounds a SKILL.md, in bytes.
const (
	MaxFiles = 512
	MaxBytes = 16 << 20
	MaxText  = 1 << 20
)

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	notInName     = regexp.MustCompile(`[^a-z0-9]+`)
	digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// Skill is a SKILL.md.
type Skill struct {
	Frontmatter mcp.Raw // an object, its members in the order of the file
	Name        string
	Description string
	Body        string // what follows the frontmatter
}

// Read reads a SKILL.md: frontmatter between two lines of three dashes, then Markdown.
// Fields that the format does not know stay: SEP-2640 wants the frontmatter verbatim.
// Errors quote nothing but names of fields.
func Read(text []byte) (s Skill, err error) {
	if !utf8.Valid(text) {
		return s, errors.New("it is not UTF-8")
	}
	head, body, err := Split(text)
	if err != nil {
		return s, err
	}
	s.Body = string(body)
	if s.Frontmatter, err = ReadFrontmatter(head); err != nil {
		return s, err
	}
	return s, s.check()
}

// Split divides a SKILL.md into the YAML of its frontmatter and what follows.
func Split(text []byte) (head, body []byte, err error) {
	line := func(text []byte) (line, rest []byte) {
		line, rest, _ = bytes.Cut(text, []byte{'\n'})
		return bytes.TrimSuffix(line, []byte{'\r'}), rest
	}
	first, rest := line(bytes.TrimPrefix(text, []byte("\ufeff")))
	if string(first) != "---" {
		return nil, nil, errors.New("it does not begin with a line of three dashes")
	}
	start := rest
	for len(rest) > 0 {
		at := len(start) - len(rest)
		if at > maxFrontmatter {
			return nil, nil, fmt.Errorf("its frontmatter has more than %d bytes", maxFrontmatter)
		}
		var l []byte
		if l, rest = line(rest); string(l) == "---" {
			return start[:at], rest, nil
		}
	}
	return nil, nil, errors.New("its frontmatter does not end with a line of three dashes")
}

// check checks the fields that the format knows.
func (s *Skill) check() error {
	text := func(field string, required bool, most int) (t string, err error) {
		value, ok := s.Frontmatter.Member(field)
		if !ok && !required {
			return "", nil
		}
		t, isText := value.StringValue()
		switch {
		case !ok:
			return "", fmt.Errorf("its frontmatter has no %s", field)
		case !isText:
			return "", fmt.Errorf("%s is no text", field)
		case strings.TrimSpace(t) == "":
			return "", fmt.Errorf("%s is empty", field)
		case utf8.RuneCountInString(t) > most:
			return "", fmt.Errorf("%s has more than %d characters", field, most)
		}
		return t, nil
	}
	var err error
	if s.Name, err = text("name", true, MaxName); err != nil {
		return err
	}
	if !IsName(s.Name) {
		return errors.New("name: want lower-case letters, digits and single '-' between them")
	}
	if s.Description, err = text("description", true, MaxDescription); err != nil {
		return err
	}
	if _, err = text("compatibility", false, MaxCompatibility); err != nil {
		return err
	}
	for _, field := range []string{"license", "allowed-tools"} {
		if _, err = text(field, false, maxFrontmatter); err != nil {
			return err
		}
	}
	metadata, ok := s.Frontmatter.Member("metadata")
	if !ok || metadata.IsNull() {
		return nil
	}
	if !metadata.IsObject() {
		return errors.New("metadata is no mapping")
	}
	metadata.Members(func(_ []byte, value mcp.Raw) bool {
		if value.IsObject() || value.IsArray() {
			err = errors.New("metadata has a value that is no text")
		}
		return err == nil
	})
	return err
}

// asYAML makes JSON one line of YAML: it escapes what YAML takes for the end of a line, and
// what it does not accept at all.
var asYAML = strings.NewReplacer("\u2028", `\u2028`, "\u2029", `\u2029`, "\u0085", `\u0085`, "\x7f", `\u007f`,
	"\ufeff", `\ufeff`)

// Write writes a SKILL.md with this frontmatter, an object.
func Write(frontmatter mcp.Raw, instructions string) []byte {
	var b strings.Builder
	b.WriteString("---\n")
	frontmatter.Each(func(name string, value mcp.Raw) bool {
		b.WriteString(name + ": " + asYAML.Replace(string(value)) + "\n")
		return true
	})
	b.WriteString("---\n" + instructions)
	return []byte(b.String())
}

// IsName reports whether a skill may have this name. Names are ASCII, since models read them
// and people compare them.
func IsName(name string) bool { return len(name) <= MaxName && namePattern.MatchString(name) }

// Slug turns any name into one that a skill may have. A name that it changes gets a hash, so
// that different names stay different.
func Slug(name string) string {
	if IsName(name) {
		return name
	}
	const digits = 8
	slug := strings.Trim(notInName.ReplaceAllString(strings.ToLower(name), "-"), "-")
	slug = strings.Trim(slug[:min(len(slug), MaxName-1-digits)], "-")
	sum := sha256.Sum256([]byte(name))
	return strings.TrimPrefix(slug+"-"+hex.EncodeToString(sum[:])[:digits], "-")
}

// Digest returns the digest of a file as in a record: sha256:<hex>.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// IsDigest reports whether a text has the form of a Digest.
func IsDigest(text string) bool { return digestPattern.MatchString(text) }

// Contents makes the member contents of a result with only this file. It is a text where that
// gives the same bytes back.
func Contents(uri string, content []byte) mcp.Raw {
	member, media, text := "blob", mcp.MediaBinary, ""
	if utf8.Valid(content) && bytes.IndexByte(content, 0) < 0 {
		member, media, text = "text", mcp.MediaText, string(content)
	} else {
		text = base64.StdEncoding.EncodeToString(content)
	}
	if known := mcp.MediaType(uri); known != "" {
		media = known
	}
	return mcp.Array(mcp.Object("uri", mcp.String(uri), "mimeType", mcp.String(media), member, mcp.String(text)))
}
