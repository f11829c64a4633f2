package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// Soon is the time before its end in which a key is worth a warning.
const Soon = 14 * 24 * time.Hour

// Read is the content of a file of keys.
type Read struct {
	Keys     []apikey.Entry
	Problems []strictyaml.Problem
	Warnings []strictyaml.Problem
	// Seen is the state of the file when it was read.
	Seen strictyaml.Seen
	text []byte
	doc  *strictyaml.Document
}

// Load reads a file. with is the section auth.keys of the configuration, and views are those that
// it has. mayLack says that a file that is not there is only worth a warning.
func Load(path string, with apikey.Config, views []string, mayLack bool) Read {
	data, _, seen, err := strictyaml.SeeFile(path, apikey.MaxFile)
	switch {
	case mayLack && errors.Is(err, fs.ErrNotExist):
		return Read{Seen: seen, Warnings: []strictyaml.Problem{{File: path,
			Message: "there is no such file yet: gatehouse key new makes it"}}}
	case err != nil:
		return Read{Seen: seen, Problems: []strictyaml.Problem{{File: path, Message: "cannot be read: " + err.Error()}}}
	}
	r := parse(path, data)
	r.Seen = seen
	r.doc.Check(apikey.File{Keys: r.Keys}.CheckWith(with))
	r.doc.Check(apikey.CheckViews("keys", r.Keys, views))
	r.doc.Doubt(apikey.Doubts("keys", r.Keys, time.Now(), Soon))
	r.Problems, r.Warnings = r.doc.Problems(), r.doc.Warnings()
	return r
}

// Entries returns the keys in a file.
func Entries(path string) ([]apikey.Entry, error) {
	data, _, _, err := strictyaml.SeeFile(path, apikey.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r, err := whole(path, data)
	return r.Keys, err
}

func parse(path string, text []byte) Read {
	var f apikey.File
	none := func(string) (string, bool) { return "", false }
	doc := strictyaml.Decode(strictyaml.Source{File: path, Data: text, Env: none, Least: "keys", Example: "keys: []"}, &f)
	return Read{Keys: f.Keys, text: text, doc: doc}
}

// whole parses a text that must have no mistakes.
func whole(path string, text []byte) (Read, error) {
	r := parse(path, text)
	r.doc.Check(apikey.File{Keys: r.Keys}.Validate())
	if problems := r.doc.Problems(); len(problems) > 0 {
		return r, fmt.Errorf("%s", problems[0])
	}
	return r, nil
}
