package main

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestCPUTime(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	used := time.Duration(0)
	begun := time.Now()
	for used < 10*time.Millisecond && time.Since(begun) < time.Minute { // a busy machine may give it little time
		after, err := cpuTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		used = after - before
	}
	if most := time.Since(begun)*time.Duration(runtime.NumCPU()) + time.Second; used < 10*time.Millisecond || used > most {
		t.Errorf("%s of work took %s of CPU", time.Since(begun), used)
	}
}
