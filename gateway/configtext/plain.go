package configtext

import (
	"net/url"
	"regexp"
	"strings"
)

// Values of the tag secret, at fields that hold a URL.
const (
	tagPath = "path" // servers may know their callers by its path
	tagUser = "user" // only its user information is secret
)

var (
	// mark ends a line of the file with literal values that may be shown.
	mark = regexp.MustCompile(`\s#\s*public\s*$`)
	// harmless matches switches, ports and the like.
	harmless = regexp.MustCompile(`^(?:true|false|[0-9]{1,5})$`)
	// somewhere matches paths of files.
	somewhere = regexp.MustCompile(`^(?:\.{0,2}/|~/|[A-Za-z]:\\)`)
	// launching matches flags, of programs that start others, in front of names and further arguments.
	launching = regexp.MustCompile(`^(?:-y|--yes|-q|--quiet|-i|-it|--rm|--init|--interactive|-m|--package|--from|--with|` +
		`--directory|--project|--python|--name|--network|--platform|--pull|--stdio|-jar)$`)
	variable = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	letters  = regexp.MustCompile(`^[A-Za-z]{0,20}$`)
	digits   = regexp.MustCompile(`^[0-9]{1,12}$`)
	version  = regexp.MustCompile(`^[A-Za-z0-9]{1,7}$`)
	between  = regexp.MustCompile(`[^A-Za-z0-9]+`)
	referred = regexp.MustCompile(`\$\{[^}]*\}`)
)

// literal returns a text without its references.
func literal(text string) string {
	parts := strings.Split(text, "$${")
	for i, part := range parts {
		parts[i] = referred.ReplaceAllString(part, "")
	}
	return strings.Join(parts, "$${")
}

// ServerURL returns the public part of the URL of a server, as the file has it. It leaves out the query,
// and a path that a person would not write by hand: a server may know its callers by it.
func ServerURL(text string) string {
	bare, _, _ := strings.Cut(text, "?")
	bare, _, _ = strings.Cut(bare, "#")
	if !plainPath(bare) || SecretValue(literal(bare)) {
		scheme, rest, whole := strings.Cut(bare, "://")
		if !whole { // a reference has the rest
			return "…"
		}
		host, _, _ := strings.Cut(rest, "/")
		return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/…"
	}
	return bare
}

// plainPath reports whether the path of a URL consists of words, numbers and versions.
func plainPath(text string) bool {
	_, rest, _ := strings.Cut(literal(text), "://")
	_, path, _ := strings.Cut(rest, "/")
	return plainWords(path)
}

// plainServer is plainPath for the whole part of a URL that a server gets.
func plainServer(text string) bool {
	bare, query, _ := strings.Cut(literal(text), "?")
	values, err := url.ParseQuery(query)
	if err != nil || !plainPath(bare) {
		return false
	}
	for _, all := range values {
		for _, value := range all {
			if !plainWords(value) {
				return false
			}
		}
	}
	return true
}

func plainWords(text string) bool {
	for _, word := range between.Split(text, -1) {
		if !letters.MatchString(word) && !digits.MatchString(word) && !version.MatchString(word) {
			return false
		}
	}
	return true
}

// plainArgument reports whether the argument behind a flag is no secret for sure.
func plainArgument(flag, arg string) bool {
	arg = literal(arg)
	switch {
	case arg == "" || harmless.MatchString(arg) || somewhere.MatchString(arg) || launching.MatchString(flag):
		return true
	case flag == "-e" || flag == "--env":
		return variable.MatchString(arg) // its value is not here
	}
	return strings.HasPrefix(arg, "https://") && plainServer(arg)
}
