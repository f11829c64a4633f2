//go:build !unix

package redistest

import "testing"

// Hang fails the test: this system cannot stop a process.
func (s *Server) Hang(t testing.TB) { t.Fatal("this system cannot stop a process") }

// Resume ends Hang.
func (s *Server) Resume(t testing.TB) {}
