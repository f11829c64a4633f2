package console

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"time"
)

//go:embed pages
var templates embed.FS

// look is the parsed template of a page.
type look struct{ page *template.Template }

// newLook reads a template, with the layout around it. The template defines "main", and "live" for
// a live part.
func newLook(name string) (*look, error) {
	t, err := template.New("layout.html").Funcs(functions).ParseFS(templates, "pages/layout.html", "pages/parts.html",
		"pages/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return &look{t}, nil
}

// functions are those that templates can use.
var functions = template.FuncMap{
	"text":     func(v any) string { return text(v, mostText) },
	"short":    func(v any) string { return text(v, mostShort) },
	"whole":    func(v any) string { return text(v, mostWhole) },
	"when":     when,
	"took":     took,
	"millis":   millis,
	"ofMillis": ofMillis,
	"percent":  percent,
	"count":    count,
	"of":       numberOf,
	"bytes":    size,
	"join":     strings.Join,
	"path":     path,
	"query":    query,
	"dict":     dict,
	"asset":    asset,
	"effects":  effects,
	"mark":     stateMark,
	"indented": indented,
}

// when writes a time for people: how long ago, and when exactly; the box at the end of each page
// chooses one. The script keeps it up to date.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "never"
	}
	t = t.UTC()
	exact := t.Format("2006-01-02 15:04:05 UTC")
	// The HTML is made of a time alone.
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s"><span>%s</span><span class="exact">%s</span></time>`,
		t.Format(time.RFC3339), exact, ago(time.Since(t)), exact))
}

// ago describes a duration before now.
func ago(d time.Duration) string {
	unit := func(n time.Duration, name string) string {
		if n == 1 {
			return "1 " + name + " ago"
		}
		return strconv.Itoa(int(n)) + " " + name + "s ago"
	}
	switch {
	case d < -time.Minute:
		return "in " + took(-d)
	case d < 5*time.Second:
		return "now"
	case d < time.Minute:
		return unit(d/time.Second, "second")
	case d < time.Hour:
		return unit(d/time.Minute, "minute")
	case d < 48*time.Hour:
		return unit(d/time.Hour, "hour")
	}
	return unit(d/(24*time.Hour), "day")
}

// took writes a duration for people.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 ms"
	case d < time.Millisecond:
		return strconv.Itoa(int(d/time.Microsecond)) + " µs"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	case d < time.Second:
		return strconv.Itoa(int(d/time.Millisecond)) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + " days"
}

// count writes a number with its thousands apart.
func count(v any) string {
	digits := fmt.Sprint(v)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// numberOf writes a number of things: 1 call, 2 calls.
func numberOf(n any, thing string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}

// size writes a number of bytes for people.
func size(n int) string {
	switch {
	case n < 1000:
		return strconv.Itoa(n) + " B"
	case n < 1000*1024:
		return strconv.FormatFloat(float64(n)/1024, 'f', 1, 64) + " KiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// path returns the path of a page, made of escaped segments.
func path(segments ...string) string {
	var p strings.Builder
	p.WriteString(Root)
	for _, s := range segments {
		p.WriteByte('/')
		p.WriteString(url.PathEscape(s))
	}
	return p.String()
}

// query adds parameters, names and values in turn, to a path. Empty values are left out.
func query(path string, pairs ...string) string {
	values := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// dict makes the data of a template within a template, of names and values in turn.
func dict(pairs ...any) (map[string]any, error) {
	d := make(map[string]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		d[name] = pairs[i+1]
	}
	return d, nil
}

// asset returns the URL of a file in static/, which changes with the file's content.
func asset(name string) (string, error) {
	content, err := fs.ReadFile(static, "static/"+name)
	if err != nil {
		return "", err
	}
	return Root + "/static/" + name + "?" + fingerprint(content), nil
}
