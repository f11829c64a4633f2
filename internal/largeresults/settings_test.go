package largeresults

import (
	"strings"
	"testing"
	"time"
)

func TestSettingsOf(t *testing.T) {
	s := Settings{Inline: 1000, Tools: []ToolSettings{
		{Names: []string{"export_*", "dump"}, Inline: 5000, Keep: time.Hour},
		{Names: []string{"*_all"}, Inline: InlineOff},
		{Names: []string{"list_*_of_*"}, Keep: time.Minute},
	}}
	for _, tt := range []struct {
		tool   string
		inline int64
		keep   time.Duration
	}{
		{"get", 1000, defaultKeep}, {"export_csv", 5000, time.Hour}, {"export_all", 5000, time.Hour},
		{"dump", 5000, time.Hour}, {"dumps", 1000, defaultKeep},
		{"get_all", 0, defaultKeep}, {"list_rows_of_x", 1000, time.Minute}, {"list_of_x", 1000, defaultKeep},
		{"", 1000, defaultKeep},
	} {
		if inline, keep := s.Of(tt.tool); inline != tt.inline || keep != tt.keep {
			t.Errorf("%s: %d %s, want %d %s", tt.tool, inline, keep, tt.inline, tt.keep)
		}
	}
	if s.Least() != 1000 || (Settings{}).Least() != 0 || (Settings{Inline: InlineOff, Tools: s.Tools}).Least() != 5000 {
		t.Error("the least sizes are wrong")
	}
}

func TestInline(t *testing.T) {
	for text, want := range map[string]Inline{"off": InlineOff, "4096": 4096, "100KiB": 100 << 10, "2MiB": 2 << 20} {
		var got Inline
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"0": "100KiB", "-1": "100KiB", "100KB": "100KiB", "": "100KiB",
		"99999999999999GiB": "too large", "none": "or off"} {
		var got Inline
		if err := got.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings Settings
		want     []string
	}{
		{"nothing", Settings{}, nil},
		{"all", Settings{Inline: 4096, Keep: time.Hour,
			Tools: []ToolSettings{{Names: []string{"*"}, Inline: InlineOff, Keep: time.Minute}}}, nil},
		{"only for a tool", Settings{Keep: time.Hour, Tools: []ToolSettings{{Names: []string{"a"}, Inline: 4096}}}, nil},
		{"too little", Settings{Inline: 100}, []string{"inline: 100 bytes are too few"}},
		{"no time that is", Settings{Inline: 4096, Keep: -1,
			Tools: []ToolSettings{{Names: []string{"a"}, Keep: 25 * time.Hour}}},
			[]string{"keep: -1ns is negative", "tools[0]: keep: 25h0m0s is longer than 24h0m0s"}},
		{"nothing to keep", Settings{Inline: InlineOff, Keep: time.Hour}, []string{"keep: nothing is kept without inline"}},
		{"names", Settings{Inline: 4096, Tools: []ToolSettings{{}, {Names: []string{"", "a?", "a b"}}}},
			[]string{"tools[0]: names: at least one", "tools[1]: names: one is empty",
				`tools[1]: names: "a?": '?': only * is special`, `tools[1]: names: "a b": names of tools have no spaces`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.settings.Validate()
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("%v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
		})
	}
}
