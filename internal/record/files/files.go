// Package files reads records in files: it checks them, searches them, and finds their order.
//
// A chain may be in several files, one after the other, and files of several chains may come in any
// order. What a record and a chain are it leaves to internal/record, and writing to internal/audit.
// It starts no goroutines.
package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// maxFirstRecord bounds what is read of a file to find its place, in bytes.
const maxFirstRecord = 64 << 10

// Verify checks the chains in files of records, each file as a part of the chain to which
// its first record belongs. key is the secret that signs anchors, nil if it is not known.
// known are hashes of records that are known from elsewhere, for files of one chain only.
func Verify(files []string, key []byte, known map[uint64]record.Hash) ([]*record.Report, error) {
	var signing *record.Key
	var err error
	if key != nil {
		if signing, err = record.NewKey(key); err != nil {
			return nil, err
		}
	}
	parts, err := partsOf(files)
	if err != nil {
		return nil, err
	}
	var reports []*record.Report
	for len(parts) > 0 {
		end := slices.IndexFunc(parts, func(p part) bool { return p.chain != parts[0].chain })
		if end < 0 {
			end = len(parts)
		}
		if known != nil && end < len(parts) {
			return nil, fmt.Errorf("there are files of several chains (%s, %s): what is known of a record has to be checked with the files of its chain alone", parts[0].chain, parts[end].chain)
		}
		v := record.NewVerifier(signing, known)
		for _, p := range parts[:end] {
			if err := Open(p.file, func(f io.Reader) error { return v.Read(p.file, f) }); err != nil {
				return nil, err
			}
		}
		reports = append(reports, v.Report())
		parts = parts[end:]
	}
	return reports, nil
}

// Query calls do with each record in the files that fits, those of each chain oldest
// first, until do returns an error.
func Query(files []string, filter record.Filter, do func(line []byte, e *record.Entry) error) error {
	parts, err := partsOf(files)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := Open(p.file, func(f io.Reader) error { return filter.Read(f, do) }); err != nil {
			return err
		}
	}
	return nil
}

// Open calls do with what is in a file.
func Open(name string, do func(io.Reader) error) error {
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
}

// partsOf returns the files by their chains, oldest first.
func partsOf(files []string) (parts []part, err error) {
	for _, name := range files {
		err := Open(name, func(f io.Reader) error {
			chain, seq, ok := record.Begins(f)
			if !ok {
				return fmt.Errorf("%s does not begin with a record", name)
			}
			parts = append(parts, part{name, chain, seq})
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
		_ = Open(name, func(f io.Reader) error { // one that cannot be read comes first
			p.chain, p.seq, _ = record.Begins(io.LimitReader(f, maxFirstRecord))
			return nil
		})
		at[name] = p
	}
	return slices.SortedStableFunc(slices.Values(files), func(a, b string) int { return at[a].compare(at[b]) })
}
