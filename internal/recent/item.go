package recent

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Cursor is the place of a record among those of all replicas. Its zero value is before all.
type Cursor struct {
	Micros  int64 // since 1970
	Replica string
	Seq     uint64 // of the replica
}

// String returns the text that ParseCursor reads.
func (c Cursor) String() string {
	return strconv.FormatInt(c.Micros, 10) + "-" + strconv.FormatUint(c.Seq, 10) + "-" + c.Replica
}

// ParseCursor reads a Cursor.
func ParseCursor(text string) (c Cursor, err error) {
	micros, rest, _ := strings.Cut(text, "-")
	seq, replica, found := strings.Cut(rest, "-")
	c.Replica = replica
	c.Micros, err = strconv.ParseInt(micros, 10, 64)
	if err == nil {
		c.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil || !found {
		return Cursor{}, errors.New("recent: this is no cursor")
	}
	return c, nil
}

func (c Cursor) compare(other Cursor) int {
	return cmp.Or(cmp.Compare(c.Micros, other.Micros), strings.Compare(c.Replica, other.Replica),
		cmp.Compare(c.Seq, other.Seq))
}

// compareTo is compare for slices.BinarySearchFunc, order for sorting.
func (i *Item) compareTo(c Cursor) int { return i.compare(c) }

func (i *Item) order(other *Item) int { return i.compare(other.Cursor) }

// Item is a record that is kept.
type Item struct {
	Cursor
	Record *record.Record
	trail  int64 // bytes of the trail of its call, 0 for none; guarded by the mu of Records
}

// newItem is a record of a replica.
func newItem(r *record.Record, replica string, seq uint64) *Item {
	return &Item{Cursor: Cursor{r.Time.UnixMicro(), replica, seq}, Record: r}
}

// Shown returns the record for those who may, or may not, read the arguments of calls.
func (i *Item) Shown(arguments bool) *record.Record {
	if arguments {
		return i.Record
	}
	r := *i.Record
	r.Arguments, r.ArgumentsDigest, r.ArgumentsOmitted = nil, "", ""
	r.Explained = record.WithoutValues(r.Explained)
	return &r
}

// size is about how much memory the item takes, without the trail.
func (i *Item) size() int64 { return int64(i.Record.Size() + 64) }
