//go:build unix

package redistest

import (
	"syscall"
	"testing"
)

// Hang stops the server: it answers nothing until Resume.
func (s *Server) Hang(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume ends Hang.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}
