package mcptest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// VerifyMain runs the tests of a package, which must leave no goroutine behind.
func VerifyMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := Leaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Leaks describes the goroutines that do not end. It gives them a minute, since the machine may be busy: goleak alone
// gives them less than half a second, which is less than a server of net/http takes to drop a connection.
func Leaks() error {
	end := time.Now().Add(time.Minute)
	err := goleak.Find()
	for err != nil && time.Now().Before(end) {
		err = goleak.Find()
	}
	return err
}
