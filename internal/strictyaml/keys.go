package strictyaml

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Keys are the fields of a struct, as reflect.Value.FieldByIndex takes them, by the names
// of their yaml tags. Structs marked inline count as if their fields stood in their place; fields without a tag
// are no keys.
func Keys(t reflect.Type) map[string][]int {
	fields := map[string][]int{}
	for i := range t.NumField() {
		field := t.Field(i)
		tag, tagged := field.Tag.Lookup("yaml")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case strings.Contains(options, "inline"):
			for inner, index := range Keys(field.Type) {
				fields[inner] = append([]int{i}, index...)
			}
		case tagged && name != "" && name != "-" && field.IsExported():
			fields[name] = []int{i}
		}
	}
	return fields
}

// keyName matches the form of our keys and of the names of headers and variables. Anything else in
// place of a key may have a secret in it, such as "token:secret" without a space.
var keyName = regexp.MustCompile(`^[\pL_][\pL\pN_.-]*$`)

// longestKey bounds a key that is shown, in characters. It is no part of the expressions: a repeated
// class of Unicode takes a megabyte.
const longestKey = 64

// shownKey quotes a key for a message.
func shownKey(key string) string {
	if !keyName.MatchString(key) || utf8.RuneCountInString(key) > longestKey {
		return leftOut
	}
	return strconv.Quote(key)
}

// unknownKey says what is wrong with an unknown key, and which key was most likely meant, "" when
// none is near. What has no value may be one.
func unknownKey(key string, hasValue bool, fields map[string][]int) (message, meant string) {
	known := make([]string, 0, len(fields))
	for name := range fields {
		known = append(known, name)
	}
	slices.Sort(known)
	best := max(1, min(3, len(key)/3)) + 1
	meant = key
	for _, name := range known {
		if n := distance(strings.ToLower(key), name); n < best {
			best, meant = n, name
		}
	}
	switch {
	case meant != key:
		return fmt.Sprintf("unknown key %s (did you mean %q?)", shownKey(key), meant), meant
	case !hasValue:
		return "a key without a value: want key: value, with a space behind the colon; the keys here are " +
			strings.Join(known, ", "), ""
	}
	return fmt.Sprintf("unknown key %s; the keys here are %s", shownKey(key), strings.Join(known, ", ")), ""
}

// distance is the number of letters to insert, delete, replace or swap with their
// neighbour to make b of a; keys longer than any of ours are far from all.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
