package auth

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestClaimAt(t *testing.T) {
	claims := mcp.Raw(`{"groups":["a"],"https://x.example/groups":1,"a/b":2,"~":3,"~1":4,"realm":{"roles":{"":5},"a/b":6},"":7,"list":[8]}`)
	for where, want := range map[string]string{
		"groups": `["a"]`, "https://x.example/groups": "1", "a/b": "2", "/a~1b": "2", "/~0": "3", "/~01": "4", "~1": "4",
		"/realm/roles/": "5", "/realm/a~1b": "6", "/": "7", "": "7",
		"/realm/none": "", "none": "", "/list/0": "", "/groups/a": "", "realm/roles": "",
	} {
		if got, _ := claimAt(claims, where); string(got) != want {
			t.Errorf("%q: got %s, want %s", where, got, want)
		}
	}
}
