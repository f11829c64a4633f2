package skillmd

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Plain scalars follow the core schema of YAML 1.2 (§10.3.2): clients read a SKILL.md again by it
// to compare it with its entry. Of YAML 1.1, which the parser has, there are no octal numbers like
// 017, no 0b11 and no 1_000.
var (
	yamlNull  = regexp.MustCompile(`^(~|null|Null|NULL)?$`)
	yamlTrue  = regexp.MustCompile(`^(true|True|TRUE)$`)
	yamlFalse = regexp.MustCompile(`^(false|False|FALSE)$`)
	yamlInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	yamlBased = regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
	yamlFloat = regexp.MustCompile(`^([-+]?)([0-9]*)(?:\.([0-9]*))?((?:[eE][-+]?[0-9]+)?)$`)
	yamlNoJSN = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// appendScalar writes a scalar as what YAML 1.2 takes it for. A date is text, and a number
// keeps the digits that it has.
func appendScalar(dst mcp.Raw, n *yaml.Node) (mcp.Raw, error) {
	switch {
	case !isPlain(n):
		return mcp.AppendString(dst, n.Value), nil
	case yamlNull.MatchString(n.Value):
		return append(dst, "null"...), nil
	case yamlTrue.MatchString(n.Value):
		return append(dst, "true"...), nil
	case yamlFalse.MatchString(n.Value):
		return append(dst, "false"...), nil
	}
	number, is := yamlNumber(n.Value)
	switch {
	case !is:
		return mcp.AppendString(dst, n.Value), nil
	case number == "":
		return nil, fmt.Errorf("its frontmatter has a value that JSON has not (line %d of the file)", n.Line+1)
	}
	return append(dst, number...), nil
}

// isPlain reports whether a scalar stands without quotation marks and the like.
func isPlain(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

// isText reports whether a scalar is text by the core schema.
func isText(n *yaml.Node) bool {
	if !isPlain(n) {
		return true
	}
	_, number := yamlNumber(n.Value)
	return !number && !yamlNull.MatchString(n.Value) && !yamlTrue.MatchString(n.Value) && !yamlFalse.MatchString(n.Value)
}

// yamlNumber makes a number of JSON of one of YAML; "" for one that JSON has not, or that
// is larger than what readers of JSON have.
func yamlNumber(text string) (number string, is bool) {
	switch {
	case yamlNoJSN.MatchString(text):
		return "", true
	case yamlBased.MatchString(text):
		whole, ok := new(big.Int).SetString(text, 0)
		if !ok {
			return "", true
		}
		number = whole.String()
	case yamlInt.MatchString(text):
		number = sign(text) + whole(strings.TrimLeft(text, "+-"))
	default:
		parts := yamlFloat.FindStringSubmatch(text)
		if parts == nil || parts[2] == "" && parts[3] == "" {
			return "", false
		}
		number = sign(text) + whole(parts[2])
		if parts[3] != "" {
			number += "." + parts[3]
		}
		number += parts[4]
	}
	if f, err := strconv.ParseFloat(number, 64); err != nil || math.IsInf(f, 0) {
		return "", true
	}
	return number, true
}

func sign(text string) string {
	if strings.HasPrefix(text, "-") {
		return "-"
	}
	return ""
}

// whole are the digits before the point as JSON has them.
func whole(digits string) string {
	if digits = strings.TrimLeft(digits, "0"); digits != "" {
		return digits
	}
	return "0"
}
