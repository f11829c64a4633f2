package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxDepth bounds the nesting of documents that decide about access.
const maxDepth = 32

// Reasons to refuse a document that decides about access.
var (
	errNotObject = errors.New("not a JSON object")
	errDeep      = errors.New("nested too deeply")
	errTwice     = errors.New("a member stands there twice, or a second time in other case")
	errEscaped   = errors.New("a member's name has escapes")
)

// parseObject parses an object that decides about access. Every reader must understand it in
// the same way, so it refuses what readers disagree about: duplicate members, escaped names,
// invalid UTF-8, and names that differ from one of exact only by case (encoding/json would
// take one for the other).
func parseObject(text []byte, exact ...string) (mcp.Raw, error) {
	text = bytes.Trim(text, " \t\r\n")
	if len(text) == 0 || text[0] != '{' || !utf8.Valid(text) || !json.Valid(text) {
		return nil, errNotObject
	}
	object := mcp.Raw(text)
	if err := checkMembers(object, 1); err != nil {
		return nil, err
	}
	var err error
	object.Members(func(name []byte, _ mcp.Raw) bool {
		n := string(name)
		for _, e := range exact {
			if n != e && strings.EqualFold(n, e) {
				err = errTwice
			}
		}
		return err == nil
	})
	return object, err
}

func checkMembers(value mcp.Raw, depth int) (err error) {
	if depth > maxDepth {
		return errDeep
	}
	if value.IsArray() {
		value.Elements(func(element mcp.Raw) bool {
			if element.IsArray() || element.IsObject() {
				err = checkMembers(element, depth+1)
			}
			return err == nil
		})
		return err
	}
	seen := make(map[string]bool)
	value.Members(func(name []byte, member mcp.Raw) bool {
		switch {
		case bytes.IndexByte(name, '\\') >= 0:
			err = errEscaped
		case seen[string(name)]:
			err = errTwice
		case member.IsArray() || member.IsObject():
			err = checkMembers(member, depth+1)
		}
		seen[string(name)] = true
		return err == nil
	})
	return err
}

// plainText decodes a JSON string; ok is false for other values, and for a lone surrogate,
// which readers decode differently.
func plainText(value mcp.Raw) (string, bool) {
	s, ok := value.StringValue()
	return s, ok && !strings.ContainsRune(s, utf8.RuneError)
}

// textList returns the strings of a list, or a single string as a list.
func textList(value mcp.Raw) ([]string, bool) {
	if !value.IsArray() {
		s, ok := plainText(value)
		return []string{s}, ok
	}
	list := []string{}
	good := true
	value.Elements(func(element mcp.Raw) bool {
		s, ok := plainText(element)
		list = append(list, s)
		good = good && ok
		return good
	})
	return list, good
}

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
