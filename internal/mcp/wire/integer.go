package wire

import "strings"

// maxSafe is the largest integer that every JSON parser preserves, 2^53-1.
const maxSafe = "9007199254740991"

// integer returns the decimal text of a JSON number that is an integer, however it is
// written (42, 42.0, 4.2e1). ok is false for other numbers, for those beyond +-(2^53-1) and
// for text that is no number.
func integer(number string) (text string, ok bool) {
	s := scanner{b: []byte(number)}
	if len(number) == 0 || len(number) > 64 || s.number(0) != len(number) {
		return "", false
	}
	sign := ""
	if number[0] == '-' {
		sign, number = "-", number[1:]
	}
	mantissa, exponent := number, 0
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		mantissa = number[:at]
		if exponent, ok = smallInt(number[at+1:]); !ok {
			return "", false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	point := len(whole) + exponent // position of the decimal point in digits
	if strings.Trim(digits, "0") == "" {
		return "0", true
	}
	if point < len(digits) {
		if strings.Trim(digits[max(point, 0):], "0") != "" {
			return "", false
		}
		digits = digits[:max(point, 0)]
	} else {
		digits += strings.Repeat("0", min(point-len(digits), 400))
	}
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > len(maxSafe) || len(digits) == len(maxSafe) && digits > maxSafe {
		return "", false
	}
	return sign + digits, true
}

// smallInt reads an exponent of at most three digits.
func smallInt(s string) (n int, ok bool) {
	negative := strings.HasPrefix(s, "-")
	s = strings.TrimLeft(strings.TrimLeft(s, "+-"), "0")
	if len(s) > 3 {
		return 0, false
	}
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
