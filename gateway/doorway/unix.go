package doorway

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// socketMode lets the user and the group of the gateway connect.
	socketMode = 0o660
	// mostPath is the length of a path that every system takes for a socket, with what is appended to
	// it for a moment.
	mostPath = 90
)

// CheckSocket returns what is wrong with the path of a socket.
func CheckSocket(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q: want an absolute path, such as unix:/run/gatehouse/mcp.sock", path)
	case len(path) > mostPath:
		return fmt.Errorf("%q: has more than %d bytes, which not every system takes for a socket", path, mostPath)
	}
	return nil
}

// socket is a listener at a path. It removes the path when it closes.
type socket struct {
	*net.UnixListener
	path string
	file os.FileInfo
}

// listenUnix listens at a path. It takes the place of the socket of a process that has died, and of
// nothing else. The socket has its mode before it has its name.
func listenUnix(path string) (net.Listener, error) {
	if err := vacate(path); err != nil {
		return nil, err
	}
	before := path + "." + rand.Text()[:8]
	l, err := net.ListenUnix(Unix, &net.UnixAddr{Name: before, Net: Unix})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	s := &socket{UnixListener: l, path: path}
	err = os.Chmod(before, socketMode)
	if err == nil {
		s.file, err = os.Lstat(before)
	}
	if err == nil {
		err = os.Rename(before, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(before))
	}
	return s, nil
}

// vacate returns nil if a socket may have the path: nothing is there, or a socket that nothing listens at.
func vacate(path string) error {
	there, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case there.Mode().Type() != os.ModeSocket:
		return errors.New("a file is there already that is no socket: remove it, or take another path")
	}
	conn, err := net.DialTimeout(Unix, path, time.Second)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("another process listens there")
	}
	return nil
}

// Addr returns the path.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: Unix} }

// Close ends listening, and removes the path unless another process has taken it.
func (s *socket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
		os.Remove(s.path) // if that fails, the next start takes its place
	}
	return s.UnixListener.Close()
}
