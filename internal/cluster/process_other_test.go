//go:build !unix

package cluster

import "testing"

func pause(t *testing.T, _ *process) { t.Fatal("this system cannot stop a process") }

func resume(*process) {}
