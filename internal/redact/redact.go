// Package redact takes secrets out of texts that people read: errors, stderr, configuration files.
// It knows secrets by their form alone; what holds a secret itself compares with that first.
// The hooks of operators name kinds of secrets one by one, with the forms of this package.
package redact

import "regexp"

// Mark stands in place of a secret.
const Mark = "<redacted>"

// Forms of credentials that show what they are, as regular expressions.
const (
	AWSKey      = `\b(?:AKIA|ASIA)[A-Z2-7]{16}\b`
	GitHubToken = `\b(?:gh[kopusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`
	SlackToken  = `\bxox[abeoprs]-[A-Za-z0-9-]{10,}`
	GoogleKey   = `\bAIza[A-Za-z0-9_-]{35}`
	// PrivateKey matches a key that is cut off, too.
	PrivateKey = `(?s)-----BEGIN (?:[A-Z0-9 ]+ )?PRIVATE KEY(?: BLOCK)?-----.*?` +
		`(?:-----END (?:[A-Z0-9 ]+ )?PRIVATE KEY(?: BLOCK)?-----|\z)`
	others = `\b(?:(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}` +
		`|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+)`
)

var (
	token = regexp.MustCompile(
		AWSKey + "|" + GitHubToken + "|" + SlackToken + "|" + GoogleKey + "|" + others + "|" + PrivateKey)
	// assigned matches the value that follows the name of a secret, a bearer token after its scheme.
	assigned = regexp.MustCompile(`(?i)((?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|` +
		`authorization|cookie|credentials?)["']?\s*[=:]\s*)` +
		`(?:"[^"]*"?|'[^']*'?|(?:bearer|basic|token)\s+[^\s"',;&]+|[^\s"',;&]+)`)
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;&<]{8,}`)
	// userInfo matches the password in a URL.
	userInfo = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)
)

// HasToken reports whether a text has a credential that shows what it is: one of a well-known
// service, a JWT, a private key.
func HasToken(text string) bool { return token.MatchString(text) }

// Tokens replaces such credentials.
func Tokens(text, with string) string { return token.ReplaceAllLiteralString(text, with) }

// Text replaces secrets by Mark: such credentials, what follows the name of a secret or a scheme of
// HTTP authentication, and passwords in URLs.
func Text(text string) string {
	text = assigned.ReplaceAllString(text, "${1}"+Mark)
	text = bearer.ReplaceAllString(text, "${1} "+Mark)
	text = userInfo.ReplaceAllString(text, "${1}"+Mark+"@")
	return Tokens(text, Mark)
}
