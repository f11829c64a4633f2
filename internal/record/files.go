package record

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFirstRecord bounds what is read of a file to find its place, in bytes.
const maxFirstRecord = 64 << 10

// VerifyFiles checks the chains in files of records. A file belongs to the chain of its first
// record. key is the secret that signs anchors, nil if it is not known. known are records that must
// be there, for files of one chain only.
func VerifyFiles(files []string, key []byte, known map[uint64]Known) ([]*Report, error) {
	var signing *Key
	var err error
	if key != nil {
		if signing, err = NewKey(key); err != nil {
			return nil, err
		}
	}
	parts, err := partsOf(files)
	if err != nil {
		return nil, err
	}
	var reports []*Report
	for len(parts) > 0 {
		end := slices.IndexFunc(parts, func(p part) bool { return p.chain != parts[0].chain })
		if end < 0 {
			end = len(parts)
		}
		if known != nil && end < len(parts) {
			return nil, fmt.Errorf("there are files of several chains (%s, %s): what is known of a record has to be checked with the files of its chain alone", parts[0].chain, parts[end].chain)
		}
		report, err := verifyChain(parts[:end], signing, known)
		if err != nil {
			return nil, err
		}
		reports = append(reports, report)
		parts = parts[end:]
	}
	return reports, nil
}

// verifyChain checks the files of one chain.
func verifyChain(parts []part, key *Key, known map[uint64]Known) (*Report, error) {
	newest := parts[len(parts)-1]
	last, besideErr := newest.lastAnchor(key) // before the records: more of these may come
	compared := besideErr == nil && last.Chain == newest.chain
	wanted := maps.Clone(known)
	if _, told := known[last.Seq]; compared && !told {
		if wanted == nil {
			wanted = make(map[uint64]Known)
		}
		wanted[last.Seq] = Known{Hash: last.Hash, From: newest.besideName()}
	}
	v := NewVerifier(key, wanted)
	for _, p := range parts {
		if err := OpenFile(p.file, func(f io.Reader) error { return v.Read(p.file, f) }); err != nil {
			return nil, err
		}
	}
	r := v.Report()
	r.Compared = compared
	what := ""
	switch {
	case compared, newest.renamed(): // the chain may have ended long ago
	case besideErr == nil:
		what = "it is about another chain, " + last.Chain
	case !errors.Is(besideErr, fs.ErrNotExist):
		what = besideErr.Error()
	case key != nil && r.Beside == newest.besideName():
		what = "it is missing, though it says to which record the chain goes"
	}
	if what != "" {
		r.Findings = append(r.Findings, Finding{File: newest.beside(), Line: 1, What: what})
	}
	return r, nil
}

// QueryFiles calls do with each record in the files that fits, those of each chain oldest
// first, until do returns an error.
func QueryFiles(files []string, filter Filter, do func(line []byte, r *Record) error) error {
	parts, err := partsOf(files)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := OpenFile(p.file, func(f io.Reader) error { return filter.Read(f, do) }); err != nil {
			return err
		}
	}
	return nil
}

// OpenFile calls do with what is in a file.
func OpenFile(name string, do func(io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// part is a file with a part of a chain.
type part struct {
	file, chain string
	seq         uint64 // of its first record
	last        string // the name of the file with the last anchor, as the first record has it
}

// besideName is the name of the file with the last anchor. Older gateways left none.
func (p part) besideName() string {
	if p.last != "" && p.last == filepath.Base(p.last) {
		return p.last
	}
	return filepath.Base(p.file) + LastSuffix
}

func (p part) beside() string { return filepath.Join(filepath.Dir(p.file), p.besideName()) }

// renamed reports whether the file was given another name since the gateway wrote to it.
func (p part) renamed() bool { return p.besideName() != filepath.Base(p.file)+LastSuffix }

// lastAnchor reads the file with the last anchor.
func (p part) lastAnchor(key *Key) (a Anchor, err error) {
	err = OpenFile(p.beside(), func(f io.Reader) (err error) {
		text, err := io.ReadAll(io.LimitReader(f, maxFirstRecord))
		if err != nil {
			return err
		}
		a, err = ReadAnchor(bytes.TrimSuffix(text, []byte("\n")), key)
		return err
	})
	return a, err
}

// partsOf returns the files by their chains, oldest first. It leaves out those with only the last
// anchor of others.
func partsOf(files []string) (parts []part, err error) {
	for _, name := range files {
		err := OpenFile(name, func(f io.Reader) error {
			chain, seq, last, ok := begins(f)
			switch {
			case !ok:
				return fmt.Errorf("%s does not begin with a record", name)
			case last != filepath.Base(name):
				parts = append(parts, part{name, chain, seq, last})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(parts, part.compare)
	return parts, nil
}

// compare orders files by their chains, the oldest first.
func (p part) compare(q part) int {
	return cmp.Or(strings.Compare(p.chain, q.chain), cmp.Compare(p.seq, q.seq))
}

// OldestFirst sorts files by the records with which they begin, if they begin with one.
func OldestFirst(files []string) []string {
	at := make(map[string]part)
	for _, name := range files {
		p := part{file: name}
		_ = OpenFile(name, func(f io.Reader) error { // one that cannot be read comes first
			p.chain, p.seq, p.last, _ = begins(io.LimitReader(f, maxFirstRecord))
			return nil
		})
		at[name] = p
	}
	return slices.SortedStableFunc(slices.Values(files), func(a, b string) int { return at[a].compare(at[b]) })
}
