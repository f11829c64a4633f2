package mcp

import "testing"

func TestNamed(t *testing.T) {
	for written, want := range map[string]bool{
		"uri": true, "URI": true, "Uri": true, `\u0075ri`: true, `ur\u0069`: true, `\u0055\u0052\u0049`: true,
		`u\u0072I`: true,
		"":         false, "ur": false, "uris": false, "urj": false, `\u0075rj`: false, `\u0075ri\u0000`: false,
		`uri\\`: false, `\ud800ri`: false,
	} {
		if got := Named([]byte(written), "uri"); got != want {
			t.Errorf("%s: got %t", written, got)
		}
	}
	if !Named([]byte("re\u017fource"), "resource") {
		t.Error("a letter that is equal but for case is told apart")
	}
}
