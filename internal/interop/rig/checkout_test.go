package rig

import (
	"errors"
	"testing"
)

func TestBuildAtOtherCommits(t *testing.T) {
	checkout, err := FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checkout.BuildAt(t.Context(), "0123456789abcdef", "./cmd/gatehouse"); !errors.Is(err, ErrNoCommit) {
		t.Errorf("BuildAt() of a commit that does not exist: %v", err)
	}
}
