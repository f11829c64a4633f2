package largeresults

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

const (
	// InlineOff is the value of an Inline that is written "off".
	InlineOff Inline = -1

	leastInline = 1 << 10 // bytes: less would hardly be more than the note about the rest
	defaultKeep = 10 * time.Minute
	mostKeep    = 24 * time.Hour
	mostNames   = 1000 // of tools in one entry
)

// Settings say what becomes of the large results of a server's tools. Their zero value sends all
// results whole.
type Settings struct {
	// Inline is the size of the largest content that clients are sent whole, at least 1KiB, or off. Of larger
	// content they are sent a part, and a link under which their user can read the whole. Default off.
	Inline Inline `yaml:"inline"`
	// Keep is how long the whole can be read. Default 10m, at most 24h.
	Keep time.Duration `yaml:"keep"`
	// Tools are settings for some tools. The first entry that fits a tool decides. Default
	// none.
	Tools []ToolSettings `yaml:"tools"`
}

// ToolSettings are those of some tools.
type ToolSettings struct {
	// Names are the server's own names of the tools. * is any run of characters. Required.
	Names []string `yaml:"names"`
	// Inline and Keep are for these tools as for all. Default: the values for all.
	Inline Inline        `yaml:"inline"`
	Keep   time.Duration `yaml:"keep"`
}

// Inline is a number of bytes, or InlineOff. 0 means that nothing is written.
type Inline int64

var inlinePattern = regexp.MustCompile(`^([1-9][0-9]*)(KiB|MiB|GiB)?$`)

// UnmarshalText reads a size such as 100KiB, or "off".
func (i *Inline) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		*i = InlineOff
		return nil
	}
	m := inlinePattern.FindSubmatch(text)
	if m == nil {
		return fmt.Errorf("want a number of bytes, such as 65536, 100KiB or 1MiB, or off, not %q", text)
	}
	unit := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[string(m[2])]
	number, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil || number > math.MaxInt64/unit {
		return fmt.Errorf("%s is too large", text)
	}
	*i = Inline(number * unit)
	return nil
}

// Of returns the settings for a tool, by the server's name for it. inline is 0 for off.
func (s Settings) Of(tool string) (inline int64, keep time.Duration) {
	for _, t := range s.Tools {
		if slices.ContainsFunc(t.Names, func(pattern string) bool { return fitsPattern(pattern, tool) }) {
			s.Inline, s.Keep = cmp.Or(t.Inline, s.Inline), cmp.Or(t.Keep, s.Keep)
			break
		}
	}
	return max(int64(s.Inline), 0), cmp.Or(s.Keep, defaultKeep)
}

// Least returns the smallest size of content that may not be sent whole, 0 if all is.
func (s Settings) Least() int64 {
	least := max(int64(s.Inline), 0)
	for _, t := range s.Tools {
		if t.Inline > 0 && (least == 0 || int64(t.Inline) < least) {
			least = int64(t.Inline)
		}
	}
	return least
}

// fitsPattern matches a name with a pattern in which * stands for any run of bytes.
func fitsPattern(pattern, name string) bool {
	part, rest, star := strings.Cut(pattern, "*")
	if !star {
		return name == part
	}
	name, ok := strings.CutPrefix(name, part)
	for ok {
		if part, rest, star = strings.Cut(rest, "*"); !star {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
	}
	return false
}

// Validate returns everything that is wrong.
func (s Settings) Validate() error {
	found := check(s.Inline, s.Keep)
	found.When(s.Keep != 0 && s.Least() == 0,
		"keep: nothing is kept without inline: write inline: 100KiB, or take keep out")
	for i, t := range s.Tools {
		var inTool problems.List
		inTool.When(len(t.Names) == 0, "names: at least one is needed, such as export_*")
		inTool.When(len(t.Names) > mostNames, "names: %d are more than %d", len(t.Names), mostNames)
		for _, pattern := range t.Names {
			inTool.At("names", checkToolPattern(pattern))
		}
		found.At(fmt.Sprintf("tools[%d]", i), append(inTool, check(t.Inline, t.Keep)...)...)
	}
	return found.Err()
}

func check(inline Inline, keep time.Duration) (found problems.List) {
	found.When(inline > 0 && inline < leastInline,
		"inline: %d bytes are too few: want at least 1KiB, or off", inline)
	found.When(inline < InlineOff, "inline: %d is negative", inline)
	found.At("keep", problems.Negative(keep))
	found.When(keep > mostKeep, "keep: %s is longer than %s", keep, mostKeep)
	return found
}

func checkToolPattern(pattern string) error {
	switch at := strings.IndexAny(pattern, `?[]{}\!`); {
	case pattern == "":
		return errors.New("one is empty; * is every tool")
	case at >= 0:
		return fmt.Errorf("%q: %q: only * is special, and nothing else that is in other pattern languages can be in one",
			pattern, pattern[at])
	case strings.ContainsFunc(pattern, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("%q: names of tools have no spaces, control characters or letters outside of ASCII", pattern)
	}
	return nil
}
