package skilldir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// settled is the least age of a file's last change at which its time proves that there was none
// since.
const settled = 2 * time.Second

// file is a file of a skill.
type file struct {
	path   string // from the directory of all skills
	real   string // the same without links
	uri    string
	skill  string // the key of the innermost skill that it is in
	size   int64
	digest string // sha256:<hex>, of its bytes
	info   fs.FileInfo
	hashed time.Time
}

// unchanged returns what is known of a file, and whether it is as it was.
func (s *scan) unchanged(uri string, at found) (file, bool) {
	f, known := s.last.files[uri]
	same := known && f.real == at.real && f.size == at.info.Size() && f.info.ModTime().Equal(at.info.ModTime()) &&
		os.SameFile(f.info, at.info) && f.hashed.Sub(f.info.ModTime()) > settled
	return f, same
}

// uriPath returns a path of files as it stands in a URI behind skill:// (RFC 3986 §3.3). It
// also escapes * and !, which patterns of policy cannot contain, and in the first directory,
// which has the place of a host, what divides one.
func uriPath(name string) string {
	first := true
	return mcp.Escape(name, func(c byte) bool {
		first = first && c != '/'
		return strings.IndexByte("-._~$&'()+,;=/", c) >= 0 || !first && (c == ':' || c == '@')
	})
}

// textURI returns the URI of the SKILL.md of a skill.
func textURI(key string) string { return mcp.SkillScheme + key + "/" + mcp.SkillFile }

// fileURI returns the URI of a file of a skill.
func fileURI(name string) string { return mcp.SkillScheme + uriPath(name) }

// fileNameOK refuses names if their URI could be read in two ways.
func fileNameOK(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name,
		func(r rune) bool { return r < ' ' || r == 0x7f || r == '%' || r == '\\' })
}

// shownPath makes a path fit for a message.
func shownPath(name string) string { return strings.ToValidUTF8(name, "\ufffd") }

var errChanged = errors.New("it is being changed")

// readInRoot reads a plain file that was seen as info. It does not wait for one that is a pipe
// by now.
func readInRoot(root *os.Root, name string, info fs.FileInfo, most int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !opened.Mode().IsRegular() || !os.SameFile(info, opened) {
		return nil, errChanged
	}
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return content, err
}

// readFailure describes why something cannot be read, without the path in the error.
func readFailure(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "it may not be read"
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	return err.Error()
}
