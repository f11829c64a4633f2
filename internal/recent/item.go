package recent

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
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
	return cmp.Or(cmp.Compare(c.Micros, other.Micros), strings.Compare(c.Replica, other.Replica), cmp.Compare(c.Seq, other.Seq))
}

// compareTo is compare for slices.BinarySearchFunc, order for sorting.
func (i *Item) compareTo(c Cursor) int { return i.compare(c) }

func (i *Item) order(other *Item) int { return i.compare(other.Cursor) }

// Item is a record that is kept. It does not change.
type Item struct {
	Cursor
	own   *record.Record // of this replica; nil for others
	text  []byte         // of others: an object
	entry *record.Entry  // likewise
}

// ownItem is a record of this replica.
func ownItem(r *record.Record, replica string, seq uint64) *Item {
	return &Item{Cursor: Cursor{r.Time.UnixMicro(), replica, seq}, own: r}
}

// otherItem reads a record of another replica.
func otherItem(text []byte, replica string, seq uint64) (*Item, error) {
	var e record.Entry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	return &Item{Cursor: Cursor{e.Time.UnixMicro(), replica, seq}, text: text, entry: &e}, nil
}

// Entry returns what the record says, as far as it is searched.
func (i *Item) Entry() *record.Entry {
	if i.own != nil {
		return i.own.Entry()
	}
	return i.entry
}

// fits reports whether the item is wanted.
func (i *Item) fits(f *record.Filter) bool {
	if i.own != nil {
		return f.FitsRecord(i.own)
	}
	return f.Fits(i.entry)
}

// record returns the record as an object.
func (i *Item) record() mcp.Raw {
	if i.own != nil {
		return i.own.AppendJSON(nil)
	}
	return i.text
}

// JSON returns the record as an object, with its cursor and its replica. Without arguments,
// what the record says of those of a call is left out.
func (i *Item) JSON(arguments bool) mcp.Raw {
	text := i.record()
	if !arguments {
		text = text.Without("arguments").Without("arguments_digest").Without("arguments_omitted")
		if lines := text.At("explained"); lines != nil {
			text = text.With("explained", record.WithoutValues(lines))
		}
	}
	return text.With("replica", mcp.String(i.Replica)).With("cursor", mcp.String(i.Cursor.String()))
}

// size is about how much memory the item takes.
func (i *Item) size() int64 {
	if i.own != nil {
		return int64(i.own.Size() + 64)
	}
	return int64(2*len(i.text) + 640)
}

// about is what decides how long the item stays.
func (i *Item) about() trail.Memory {
	m := trail.Memory{Bytes: i.size()}
	if r := i.own; r != nil {
		m.Owner, m.Ordinary = r.User, ordinary(r.Kind, r.Outcome, r.Event) && r.Duration < trail.Slow
		return m
	}
	e, fast := i.entry, float64(trail.Slow.Milliseconds())
	m.Owner, m.Ordinary = e.User, ordinary(e.Kind, e.Outcome, e.Event) && e.Duration < fast
	return m
}

// ordinary reports whether a record says that nothing special has happened.
func ordinary(kind, outcome, event string) bool {
	switch kind {
	case record.KindCall:
		return outcome == "ok" || outcome == "ask"
	case record.KindSignIn:
		return event == "ok"
	case record.KindCredential:
		return event == "obtained"
	}
	return kind == record.KindSession
}

// at is the time of the record.
func (i *Item) at() time.Time { return time.UnixMicro(i.Micros) }
