package redistest

import (
	"context"
	"os"
	"strings"
	"testing"
)

// The user that AddUser makes.
const (
	Username = "gatehouse"
	Password = "s3cret"
)

// AddUser creates, on all these servers, the user that a page of the documentation
// describes. The test fails if one of them refuses that user a command before it ends.
func AddUser(t testing.TB, page string, servers ...*Server) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "ACL SETUSER "+Username)
	rules, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatalf("redistest: %s has no such user", page)
	}
	args := []any{"ACL", "SETUSER", Username}
	for _, rule := range strings.Fields(strings.ReplaceAll(rules, ">PASSWORD", ">"+Password)) {
		args = append(args, rule)
	}
	for _, s := range servers {
		do(t, s, args...)
		t.Cleanup(func() {
			client := s.Client()
			defer client.Close()
			if refused, err := client.Do(context.Background(), "ACL", "LOG").Slice(); err != nil || len(refused) > 0 {
				t.Errorf("the user of %s is refused: %v, %v", page, refused, err)
			}
		})
	}
}
