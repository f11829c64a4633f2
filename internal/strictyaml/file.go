package strictyaml

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Seen is a file as it was read, or a directory as it was listed. Two of them are equal when
// their contents are.
type Seen struct {
	path    string
	limit   int64 // of a file, in bytes; 0 for a directory
	content [sha256.Size]byte
}

// Again returns what is there now.
func (s Seen) Again() Seen {
	if s.limit == 0 {
		return SeeDirectory(s.path)
	}
	_, _, now, _ := SeeFile(s.path, s.limit)
	return now
}

// SeeFile reads a whole regular file of at most limit bytes, and notes what was there.
// Symbolic links are followed; pipes and devices are refused, since reading them may never
// end. The error does not name the file.
func SeeFile(path string, limit int64) (data []byte, mode os.FileMode, s Seen, err error) {
	data, mode, err = readFile(path, limit)
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %v\n", len(data), err)
	sum.Write(data)
	return data, mode, Seen{path, limit, [sha256.Size]byte(sum.Sum(nil))}, err
}

// maxListed is how many bytes of the files in a directory are read whenever it is looked at.
const maxListed = 1 << 20

// SeeDirectory lists a directory, and notes what its files hold. Beyond the first megabyte
// of them it notes sizes and times: there may be too many to read them every time.
func SeeDirectory(path string) Seen {
	entries, err := os.ReadDir(path)
	sum := sha256.New()
	fmt.Fprintf(sum, "%v\n", err)
	left := int64(maxListed)
	for _, entry := range entries {
		// Behind the links of a Kubernetes ConfigMap, too.
		info, err := os.Stat(filepath.Join(path, entry.Name()))
		if err != nil {
			fmt.Fprintf(sum, "%q %v\n", entry.Name(), err)
			continue
		}
		fmt.Fprintf(sum, "%q %d %d\n", entry.Name(), info.Size(), info.ModTime().UnixNano())
		if left -= info.Size(); left >= 0 && info.Mode().IsRegular() {
			data, _, err := readFile(filepath.Join(path, entry.Name()), maxListed)
			fmt.Fprintf(sum, "%d %v\n", len(data), err)
			sum.Write(data)
		}
	}
	return Seen{path: path, content: [sha256.Size]byte(sum.Sum(nil))}
}

func readFile(path string, limit int64) ([]byte, os.FileMode, error) {
	// Asked before it is opened: opening a pipe without a writer would hang.
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, pathless(err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, pathless(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, 0, pathless(err)
	}
	if int64(len(data)) > limit {
		return nil, 0, fmt.Errorf("larger than %d bytes", limit)
	}
	return data, info.Mode(), nil
}

// pathless takes the path out of an error of package os: the caller names it.
func pathless(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}
