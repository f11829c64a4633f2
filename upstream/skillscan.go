package upstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of a directory of skills. A skill may have what every client has to take
// (SEP-2640: 512 files of 16 MiB together).
const (
	maxSkills      = 2000
	maxSkillFiles  = 512
	maxSkillBytes  = 16 << 20
	maxSkillText   = 1 << 20 // of a SKILL.md
	maxSkillDepth  = 16      // directories
	maxSkillWalked = 100_000 // files and directories in all
	// settled is how old a change of a file has to be for its time to tell the next one.
	settled = 2 * time.Second
)

// skillSet is what a directory of skills held at one moment. Immutable.
type skillSet struct {
	skills  []*skill // by key
	files   map[string]skillFile
	skipped map[string]string // by path: why it is left out
	sum     [sha256.Size]byte // of what clients see of it
}

// skill is one of its skills. Its key is the path of its directory.
type skill struct {
	key    string
	uri    string // of its SKILL.md
	text   skillText
	files  []skillFile // by path
	record mcp.Raw
}

// skillFile is a file of a skill.
type skillFile struct {
	path   string // from the directory of all skills
	uri    string
	size   int64
	digest string // sha256:<hex>, of its bytes
	change time.Time
	hashed time.Time
}

// find returns the skill of a key, nil for none.
func (s *skillSet) find(key string) *skill {
	i, ok := slices.BinarySearchFunc(s.skills, key, func(s *skill, key string) int { return cmp.Compare(s.key, key) })
	if !ok {
		return nil
	}
	return s.skills[i]
}

// scanSkills reads a directory of skills. What did not change since the last time, by size
// and time, is not read again. Nothing outside of the directory is ever opened: all goes
// through an os.Root, links are left out, and so is what is no plain file.
func scanSkills(ctx context.Context, dir string, last *skillSet) (*skillSet, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := skillScan{ctx: ctx, root: root, last: last, left: maxSkillWalked,
		set: &skillSet{files: make(map[string]skillFile), skipped: make(map[string]string)}}
	if err := s.directory(".", 0); err != nil {
		return nil, err
	}
	slices.SortFunc(s.set.skills, func(a, b *skill) int { return cmp.Compare(a.key, b.key) })
	sum := sha256.New()
	for _, k := range s.set.skills {
		sum.Write(k.record)
		sum.Write([]byte{0})
	}
	sum.Sum(s.set.sum[:0])
	return s.set, nil
}

type skillScan struct {
	ctx  context.Context
	root *os.Root
	last *skillSet
	left int
	set  *skillSet
}

func (s *skillScan) skip(name, why string, args ...any) {
	if len(s.set.skipped) < maxSkills {
		s.set.skipped[name] = fmt.Sprintf(why, args...)
	}
}

// entries lists a directory by name, without what is hidden.
func (s *skillScan) entries(dir string) ([]fs.DirEntry, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	f, err := s.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.ReadDir(s.left + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if s.left -= len(all); s.left < 0 {
		return nil, fmt.Errorf("more than %d files and directories", maxSkillWalked)
	}
	all = slices.DeleteFunc(all, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// pathSegment is what directories above skills are named: they stand in URIs, the first
// one in the place of a host.
var pathSegment = regexp.MustCompile(`^[A-Za-z0-9_~][A-Za-z0-9._~-]*$`)

// directory looks for skills in a directory and below. One that cannot be read is left out,
// but for the first, and skills within skills are files of those.
func (s *skillScan) directory(dir string, depth int) error {
	entries, err := s.entries(dir)
	switch {
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case err != nil && dir == ".":
		return err
	case err != nil:
		s.skip(dir, "it cannot be read: %s", readFailure(err))
		return nil
	}
	for _, e := range entries {
		switch {
		case e.Name() == mcp.SkillFile && dir == ".":
			s.skip(mcp.SkillFile, "a skill is a directory in this one, named like the skill")
		case e.Name() == mcp.SkillFile:
			s.skill(dir, e)
			return nil
		case strings.EqualFold(e.Name(), mcp.SkillFile):
			s.skip(path.Join(dir, e.Name()), "its name has to be %s", mcp.SkillFile)
		}
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			s.skip(name, "it is a link, and links are not followed")
		case !e.IsDir():
		case !pathSegment.MatchString(e.Name()):
			s.skip(shownPath(name), "its name has other characters than letters, digits and ._~-")
		case depth == maxSkillDepth:
			s.skip(name, "it is more than %d directories deep", maxSkillDepth)
		default:
			if err := s.directory(name, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// skill reads a skill; when something is wrong with it, it is left out and the others stay.
func (s *skillScan) skill(dir string, e fs.DirEntry) {
	if len(s.set.skills) == maxSkills {
		s.skip(dir, "there are more than %d skills", maxSkills)
		return
	}
	k := &skill{key: dir, uri: "skill://" + dir + "/" + mcp.SkillFile}
	if err := s.read(k, e); err != nil {
		s.skip(dir, "%s", err)
		return
	}
	s.set.skills = append(s.set.skills, k)
	for _, f := range k.files {
		s.set.files[f.uri] = f
	}
}

func (s *skillScan) read(k *skill, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return errors.New(mcp.SkillFile + ": " + readFailure(err))
	}
	if !info.Mode().IsRegular() {
		return errors.New(mcp.SkillFile + " is no plain file")
	}
	file, old := s.unchanged(k.uri, info)
	var before *skill // nil where it was a file of another skill
	if old {
		before = s.last.find(k.key)
	}
	if before != nil {
		k.text = before.text
	} else {
		text, err := readInRoot(s.root, path.Join(k.key, mcp.SkillFile), info, maxSkillText)
		if err != nil {
			return errors.New(mcp.SkillFile + ": " + readFailure(err))
		}
		if k.text, err = readSkill(text); err != nil {
			return errors.New(mcp.SkillFile + ": " + err.Error())
		}
		file = newSkillFile(path.Join(k.key, mcp.SkillFile), k.uri, text, info)
	}
	if want := path.Base(k.key); k.text.name != want {
		return fmt.Errorf("%s: its name is %q, and its directory's %q: they have to be the same", mcp.SkillFile, k.text.name, want)
	}
	k.files = append(k.files, file)
	if err := s.addFiles(k, k.key, 1); err != nil {
		return err
	}
	slices.SortFunc(k.files, func(a, b skillFile) int { return strings.Compare(a.uri, b.uri) })
	files := mcp.Raw{'['}
	for i, f := range k.files {
		if i > 0 {
			files = append(files, ',')
		}
		files = append(files, mcp.Object("uri", mcp.String(f.uri), "digest", mcp.String(f.digest), "size", mcp.Int(f.size))...)
	}
	k.record = k.text.record(k.key, k.uri).With("resources", append(files, ']'))
	return nil
}

// addFiles adds the files in a directory of a skill and below.
func (s *skillScan) addFiles(k *skill, dir string, depth int) error {
	entries, err := s.entries(dir)
	if err != nil {
		return fmt.Errorf("%s: %s", dir, readFailure(err))
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if name == path.Join(k.key, mcp.SkillFile) {
			continue
		}
		info, err := e.Info()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %s", shownPath(name), readFailure(err))
		case !fileNameOK(e.Name()):
			s.skip(shownPath(name), "%s", `its name has control characters, % or \, or is not UTF-8`)
		case info.Mode()&fs.ModeSymlink != 0:
			s.skip(name, "it is a link, and links are not followed")
		case info.IsDir() && depth == maxSkillDepth:
			return fmt.Errorf("%s: it is more than %d directories deep", name, maxSkillDepth)
		case info.IsDir():
			if err := s.addFiles(k, name, depth+1); err != nil {
				return err
			}
		case !info.Mode().IsRegular():
			s.skip(name, "it is no plain file")
		default:
			if err := s.addFile(k, name, info); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *skillScan) addFile(k *skill, name string, info fs.FileInfo) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	total := info.Size()
	for _, f := range k.files {
		total += f.size
	}
	switch {
	case len(k.files) == maxSkillFiles:
		return fmt.Errorf("it has more than %d files", maxSkillFiles)
	case total > maxSkillBytes:
		return fmt.Errorf("its files have more than %d bytes together", maxSkillBytes)
	}
	uri := fileURI(name)
	file, old := s.unchanged(uri, info)
	if !old {
		content, err := readInRoot(s.root, name, info, maxSkillBytes)
		if err != nil {
			return fmt.Errorf("%s: %s", name, readFailure(err))
		}
		file = newSkillFile(name, uri, content, info)
	}
	k.files = append(k.files, file)
	return nil
}

// unchanged returns what is known of a file that is as it was.
func (s *skillScan) unchanged(uri string, info fs.FileInfo) (skillFile, bool) {
	if s.last == nil {
		return skillFile{}, false
	}
	f, known := s.last.files[uri]
	same := known && f.size == info.Size() && f.change.Equal(info.ModTime()) && f.hashed.Sub(f.change) > settled
	return f, same
}

func newSkillFile(name, uri string, content []byte, info fs.FileInfo) skillFile {
	return skillFile{path: name, uri: uri, size: int64(len(content)), digest: digestOf(content), change: info.ModTime(), hashed: time.Now()}
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// fileURI is the URI of a file of a skill.
func fileURI(name string) string {
	segments := strings.Split(name, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return "skill://" + strings.Join(segments, "/")
}

// fileNameOK refuses names of which a URI could be read in two ways.
func fileNameOK(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '%' || r == '\\' })
}

// shownPath makes a path fit for a message.
func shownPath(name string) string { return strings.ToValidUTF8(name, "\ufffd") }

var errChanged = errors.New("it is being changed")

// readInRoot reads a plain file that was seen as info, without waiting for what is a pipe by
// now.
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
	if !opened.Mode().IsRegular() || info != nil && !os.SameFile(info, opened) {
		return nil, errChanged
	}
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return content, err
}

// readFailure says in words, without the path that the error may hold, why something
// cannot be read.
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
