package mcp

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestPages(t *testing.T) {
	next, broken := "", errors.New("broken")
	pages := map[string]*Reply{
		"":              {List: &List{Items: []Item{{Name: "a"}}, Next: &next}},
		`{"cursor":""}`: {List: &List{Items: []Item{{Name: "b"}}}},
	}
	for _, tt := range []struct {
		name   string
		most   int
		second *Reply
		err    error
		want   []string
		fails  bool
	}{
		{name: "to the end", most: 5, second: pages[`{"cursor":""}`], want: []string{"a", "b"}},
		{name: "no more than most", most: 1, want: []string{"a"}},
		{name: "an error", most: 5, err: broken, want: []string{"a"}, fails: true},
		{name: "no list", most: 5, second: &Reply{Result: Raw("{}")}, want: []string{"a"}, fails: true},
		{name: "nothing", most: 5, want: []string{"a"}, fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := HandlerFunc(func(_ context.Context, c *Call) (*Reply, error) {
				if c.Params == nil {
					return pages[""], nil
				}
				return tt.second, tt.err
			})
			var got []string
			var failed error
			for page, err := range Pages(t.Context(), h, &Call{Method: MethodToolsList}, tt.most) {
				if failed = err; err == nil {
					got = append(got, page.Items[0].Name)
				}
			}
			if !slices.Equal(got, tt.want) || (failed != nil) != tt.fails || tt.err != nil && !errors.Is(failed, tt.err) {
				t.Errorf("got %q, %v, want %q", got, failed, tt.want)
			}
		})
	}
}
