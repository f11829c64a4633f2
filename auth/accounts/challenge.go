package accounts

import (
	"net/http"
	"strings"
)

// challenge is what a server says in WWW-Authenticate to a client without a token (RFC 6750 §3, RFC
// 9728 §5.1).
type challenge struct {
	metadata string // resource_metadata, "" for none
	scopes   []string
}

// maxChallenge bounds, in bytes, how much of a header is read.
const maxChallenge = 8 << 10

// readChallenge reads the first Bearer challenge. What cannot be read ends it.
func readChallenge(h http.Header) (c challenge) {
	for _, line := range h.Values("Www-Authenticate") {
		bearer := false
		for rest := line[:min(len(line), maxChallenge)]; rest != ""; {
			var word string
			if word, rest = token(strings.TrimLeft(rest, " \t,")); word == "" {
				break
			}
			after := strings.TrimLeft(rest, " \t")
			value, isParam := strings.CutPrefix(after, "=")
			if !isParam { // a scheme begins another challenge
				if bearer {
					return c
				}
				bearer = strings.EqualFold(word, "Bearer")
				continue
			}
			var text string
			text, rest = paramValue(strings.TrimLeft(value, " \t"))
			switch {
			case !bearer:
			case strings.EqualFold(word, "resource_metadata") && c.metadata == "":
				c.metadata = text
			case strings.EqualFold(word, "scope") && c.scopes == nil:
				c.scopes = scopesIn(text)
			}
		}
		if bearer {
			return c
		}
	}
	return c
}

// token cuts a token of RFC 9110 §5.6.2 from the beginning; "" if there is none.
func token(text string) (word, rest string) {
	end := strings.IndexFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

// paramValue cuts the value of a parameter, which may be quoted.
func paramValue(text string) (value, rest string) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, " \t,")
		if end < 0 {
			return text, ""
		}
		return text[:end], text[end:]
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:]
		case '\\':
			if i++; i == len(text) {
				return "", ""
			}
		}
		b.WriteByte(text[i])
	}
	return "", "" // without an end
}

const (
	// maxScopes bounds how many scopes are asked for, maxScope the bytes of one.
	maxScopes = 64
	maxScope  = 256
)

// scopesIn reads the scopes in a text (RFC 6749 §3.3), without those that are none.
func scopesIn(text string) (scopes []string) {
	for one := range strings.FieldsSeq(text) {
		if isScope(one) && len(scopes) < maxScopes {
			scopes = append(scopes, one)
		}
	}
	return scopes
}

func isScope(text string) bool {
	return text != "" && len(text) <= maxScope &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}
