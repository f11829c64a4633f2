package demo

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// TestVisitorsStayApart: visitors are not in the guide, change nothing that it shows, and are not
// in the log.
func TestVisitorsStayApart(t *testing.T) {
	d := startSignIn(t, true)
	var guide strings.Builder
	if err := d.Guide(&guide, "http://127.0.0.1:48080/mcp"); err != nil {
		t.Fatal(err)
	}
	for _, v := range visitors {
		if strings.Contains(strings.ToLower(guide.String()), v.user.Subject) {
			t.Errorf("%s is in the guide", v.user.Subject)
		}
		if slices.ContainsFunc(d.signIn.Users, func(u user) bool { return u.Subject == v.user.Subject }) {
			t.Errorf("%s is a user to choose", v.user.Subject)
		}
		if d.Key(v.user.Subject) == "" {
			t.Errorf("%s has no key", v.user.Subject)
		}
		for _, call := range v.calls {
			arguments, _ := call.Arguments.(map[string]any)
			if call.Name == "notes__add" || arguments["service"] == "web" {
				t.Errorf("%s calls %s with %v, as the guide does", v.user.Subject, call.Name, arguments)
			}
		}
	}
	var lines bytes.Buffer
	log := slog.New(WithoutVisitors(slog.NewTextHandler(&lines, nil))).With("a", 1)
	for _, user := range []string{"alice", "dora", "erik"} {
		log.LogAttrs(context.Background(), slog.LevelInfo, "call", slog.String("call", "1"), slog.String("user", user))
	}
	if got := lines.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "user=alice") {
		t.Error(got)
	}
}
