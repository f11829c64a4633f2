package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// configured is a place of the configuration where a single value stands.
type configuredAt struct {
	key    string              // its own
	around func(string) string // what a text at the place of key and value makes: a configuration
	secret bool
}

// placesOf returns all places in a type, of which whole makes a configuration.
func placesOf(t reflect.Type, depth int, key string, whole func(string) string,
	around func(string) string) (all []configuredAt) {
	switch {
	case depth == 0:
		return nil
	case t.Kind() == reflect.Pointer:
		return placesOf(t.Elem(), depth, key, whole, around)
	case t == reflect.TypeFor[time.Duration](), t.Kind() != reflect.Struct && t.Kind() != reflect.Slice &&
		t.Kind() != reflect.Map:
		return []configuredAt{{key, around, t.Implements(reflect.TypeFor[slog.LogValuer]())}}
	case t.Kind() == reflect.Slice:
		return placesOf(t.Elem(), depth-1, key, func(text string) string { return whole("[" + text + "]") }, around)
	case t.Kind() == reflect.Map:
		inner := func(text string) string { return whole("{" + text + "}") }
		return placesOf(t.Elem(), depth-1, "Authorization",
			func(text string) string { return inner("Authorization: " + text) }, inner)
	}
	for name, index := range strictyaml.Keys(t) {
		inner := func(text string) string { return whole("{" + text + "}") }
		all = append(all, placesOf(t.FieldByIndex(index).Type, depth-1, name,
			func(text string) string { return inner(name + ": " + text) }, inner)...)
	}
	return all
}

// TestProblemsTellNoSecrets: whatever is wrong with a secret, or with its key, no problem and no
// excerpt has it; nor the password of a URL, wherever that stands.
func TestProblemsTellNoSecrets(t *testing.T) {
	const secret = "hunter2-0123456789"
	same := func(text string) string { return text }
	all := placesOf(reflect.TypeFor[Config](), 8, "", same, same)
	secrets := 0
	for _, at := range all {
		texts := []string{"%s: https://user:" + secret + "@host.example/",
			"%s: 'https://user:" + secret + "@host.example:port/ x'", "%s: redis://:" + secret + "@host.example:0/x"}
		if at.secret {
			secrets++
			texts = append(texts, "%s: "+secret, "%st: "+secret, "%s: ["+secret+"]", "%s: {a: "+secret+"}", "%s:"+secret,
				"%s:"+secret+" x", "%s="+secret, "%s: '${"+secret+"}'",
				"%s: '${env:HOME}"+secret+"${env:HOME}'", "%s: *"+secret, "%s: &a "+secret, "%s: !a "+secret,
				"%s: "+secret+", %[1]s: "+secret, "%s: \""+secret, "%s: @"+secret)
		}
		for _, form := range texts {
			text := at.around(fmt.Sprintf(form, at.key))
			_, warnings, err := Parse("c.yaml", []byte(text))
			problems := warnings
			if bad, ok := err.(*Error); ok {
				problems = append(problems, bad.Problems...)
			}
			for _, p := range problems {
				shown := p.String() + "\n" + strictyaml.Excerpt(text, p.Column)
				if strings.Contains(shown, secret) {
					t.Errorf("%s\nhas the secret, since\n%s", shown, text)
				}
			}
		}
	}
	if secrets < 20 || len(all) < 300 {
		t.Errorf("%d places, %d of them for secrets", len(all), secrets)
	}
}
