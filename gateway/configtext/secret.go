package configtext

import (
	"math"
	"net/url"
	"regexp"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/redact"
)

var (
	// secretName matches names of values that are mostly secret.
	secretName = regexp.MustCompile(`(?i)auth|token|secret|passw|pwd|pass$|key|credential|cookie|bearer|dsn|(^|[_-])pat$`)
	// plainName matches names that secretName matches, too, of values that are not secret.
	plainName = regexp.MustCompile(`(?i)author|keyboard|keyword|(file|path|dir|id)$`)
	// scheme matches the value of a header Authorization.
	scheme = regexp.MustCompile(`(?i)\b(?:bearer|basic|token|apikey) +[^\s"'$<]{6,}`)
	// named matches a name that a value follows, as in arguments and connection strings.
	named   = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)\s*[=:]\s*`)
	value   = regexp.MustCompile(`^(?:"([^"]*)"|'([^']*)'|([^\s"',;&]+))`)
	link    = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	uuid    = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	hexadec = regexp.MustCompile(`^(?:[0-9a-f]{32,}|[0-9A-F]{32,})$`)
	random  = regexp.MustCompile(`^[A-Za-z0-9+/_=-]{20,}$`)
)

// leastAssigned is the least length of the value of a secret name, in bytes.
const leastAssigned = 6

// SecretName reports whether values of this name are mostly secret: a header, a variable, a flag.
func SecretName(name string) bool {
	return secretName.MatchString(name) && !plainName.MatchString(name) || strings.EqualFold(name, "Authorization")
}

// SecretValue reports whether a text looks like a secret, or has one in it. It errs on the side of
// yes.
func SecretValue(text string) bool {
	if redact.HasToken(text) || scheme.MatchString(text) || isRandom(text) {
		return true
	}
	for _, found := range link.FindAllString(text, -1) {
		if secretLink(found) {
			return true
		}
	}
	if strings.Contains(text, "://") {
		return false // names in queries were looked at
	}
	return len(assignedSecrets(text)) > 0
}

// assignedSecrets returns the positions of values of secret names, and of random ones.
func assignedSecrets(text string) (found [][2]int) {
	for _, at := range named.FindAllStringSubmatchIndex(text, -1) {
		m := value.FindStringSubmatchIndex(text[at[1]:])
		if m == nil {
			continue
		}
		said := strings.Trim(text[at[1]:at[1]+m[1]], `"'`)
		if SecretName(text[at[2]:at[3]]) && len(said) >= leastAssigned && !strings.ContainsAny(said[:1], "$=") ||
			isRandom(said) {
			found = append(found, [2]int{at[1], at[1] + m[1]})
		}
	}
	return found
}

// leastInPath is the least length of a secret in the path of a URL, in bytes. Ids, such as those of
// authorization servers, have 20 random characters.
const leastInPath = 24

// secretLink reports whether a URL has a password, or a secret in its path or query. Some servers
// know their callers by the path alone.
func secretLink(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(text, "@")
	}
	if password, _ := u.User.Password(); password != "" {
		return true
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if len(segment) >= leastInPath && isRandom(segment) {
			return true
		}
	}
	for name, values := range u.Query() {
		for _, value := range values {
			if value != "" && !strings.HasPrefix(value, "$") && SecretName(name) || isRandom(value) {
				return true
			}
		}
	}
	return false
}

// leastEntropy is the least number of bits in each character of a random text. Base64 of 20 random
// characters has about 4, English words and paths have less.
const leastEntropy = 3.9

// isRandom reports whether a text looks random: no person would write it by hand.
func isRandom(text string) bool {
	switch {
	case uuid.MatchString(text): // ids of clients, tenants and audiences
		return false
	case hexadec.MatchString(text):
		return true
	case !random.MatchString(text) || strings.HasPrefix(text, "/"):
		return false
	case !strings.ContainsAny(text, "0123456789") || strings.ToLower(text) == text || strings.ToUpper(text) == text:
		return false
	}
	counts := make(map[rune]float64)
	for _, r := range text {
		counts[r]++
	}
	bits, all := 0.0, float64(len(text))
	for _, n := range counts {
		bits -= n / all * math.Log2(n/all)
	}
	return bits >= leastEntropy
}
