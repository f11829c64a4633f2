package configtext

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// FindMask returns the line and the column, from 1, of the first mask in a text; 0 for none.
func FindMask(text []byte) (line, column int) {
	at := bytes.Index(text, []byte(Mask))
	if at < 0 {
		return 0, 0
	}
	before := text[:at]
	return 1 + bytes.Count(before, []byte("\n")), at - bytes.LastIndexByte(before, '\n')
}

// Replace replaces a file as a whole: readers see the old text or the new one. The new file has the old one's mode, and
// its owner if that is allowed. A link stays; its target is replaced. still is called last; its error means that
// nothing is replaced.
func Replace(path string, text []byte, still func() error) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("its directory cannot be written: %w", err)
	}
	defer os.Remove(fresh.Name()) // not there any more if all went well
	_, err = fresh.Write(text)
	if err == nil {
		keepOwner(fresh, info)
		err = fresh.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = fresh.Sync()
	}
	if err := errors.Join(err, fresh.Close()); err != nil {
		return err
	}
	if err := still(); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), path)
}
