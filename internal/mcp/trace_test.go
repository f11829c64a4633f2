package mcp

import (
	"testing"
)

func TestTraceparent(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"sound", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true},
		{"later version", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", true},
		{"version 00 with more", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", false},
		{"version ff", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
		{"no trace", "00-00000000000000000000000000000000-b7ad6b7169203331-01", false},
		{"no span", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false},
		{"upper case", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false},
		{"empty", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ValidTraceparent(tt.value); got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
}
