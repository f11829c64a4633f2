package audit

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// lastFile is the file beside one of records that holds the last anchor. It shows if the end of the
// other was cut off. It has an anchor only after the other has it.
type lastFile struct {
	path    string
	log     *slog.Logger
	line    []byte // the last anchor, as long as the file has an older one
	failing bool
}

// save puts the anchor in place of an older one. What fails is tried again with the next one.
func (l *lastFile) save() {
	if len(l.line) == 0 {
		return
	}
	err := l.replace()
	if err != nil && !l.failing {
		l.log.Error("audit: the file with the last anchor cannot be written: verify will miss it",
			failure.AuditSinkDown.Attr(), "path", l.path, "error", err)
	}
	l.failing = err != nil
	l.line = l.line[:0]
}

func (l *lastFile) replace() error {
	next := l.path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(l.line)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(next, l.path)
}

// resume continues a chain behind the last anchor, if its file ends before that: the numbers
// then show that records are missing.
func (l *lastFile) resume(chain *record.Chain) {
	line, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	last := *chain
	if err == nil {
		err = last.ResumeAnchor(bytes.TrimSuffix(line, []byte("\n")))
	}
	switch {
	case err != nil:
		l.log.Warn("audit: nothing tells whether the end of the records was cut off", failure.AuditTorn.Attr(), "path",
			l.path, "error", err)
	case last.Name != chain.Name || last.Seq > chain.Seq:
		l.log.Warn("audit: the file does not go as far as the last anchor: the chain goes on behind that",
			failure.AuditTorn.Attr(), "path", l.path, "chain", last.Name, "record", last.Seq)
		*chain = last
	}
}
