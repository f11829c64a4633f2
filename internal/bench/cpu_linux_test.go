package main

import (
	"os"
	"testing"
	"time"
)

func TestCPUTime(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Millisecond); time.Now().Before(deadline); {
	}
	after, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := after - before; used < time.Millisecond || used > 10*time.Second {
		t.Errorf("20 ms of work took %s of CPU", used)
	}
}
