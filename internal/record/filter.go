package record

import (
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Filter says which records are wanted: those that fit every field that is set.
type Filter struct {
	User, ID, Session, Upstream string
	// Name is a public name or URI, the server's own, or upstream/name.
	Name string
	// ClientAddress is an address, or a network such as 10.0.0.0/8 (CheckAddress); UserAgent a part
	// of what the client calls itself, in any case.
	ClientAddress, UserAgent string
	// Rule is the rule of policy that decided.
	Rule string
	// Kinds, Decisions and Outcomes are lists; a record has to fit one entry of each.
	Kinds, Decisions, Outcomes []string
	// Since and Until bound the time; Until is not included.
	Since, Until time.Time
}

// Read calls do with each record that fits, as it is written and as it is read, until do
// returns an error. It skips lines that are no records, and keeps nothing.
func (f Filter) Read(from io.Reader, do func(line []byte, r *Record) error) error {
	var failed error
	err := Lines(from, func(_ int, line []byte) {
		var r Record
		if failed == nil && json.Unmarshal(line, &r) == nil && f.Fits(&r) {
			failed = do(line, &r)
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// Fits reports whether a record is wanted.
func (f Filter) Fits(r *Record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	oneOf := func(want []string, got string) bool { return len(want) == 0 || slices.Contains(want, got) }
	return is(f.User, r.User) && is(f.ID, r.ID) && is(f.Session, r.Session) && is(f.Upstream, r.Upstream) &&
		is(f.Rule, r.Rule) &&
		within(f.ClientAddress, r.ClientAddress) &&
		(f.UserAgent == "" || strings.Contains(strings.ToLower(r.UserAgent), strings.ToLower(f.UserAgent))) &&
		(f.Name == "" || f.Name == r.Name || f.Name == r.Original || f.Name == r.Upstream+"/"+r.Original) &&
		oneOf(f.Kinds, r.Kind) && oneOf(f.Decisions, r.Decision) && oneOf(f.Outcomes, r.Outcome) &&
		(f.Since.IsZero() || !r.Time.Before(f.Since)) && (f.Until.IsZero() || r.Time.Before(f.Until))
}

// CheckAddress returns an error if a text is neither an address nor a network.
func CheckAddress(text string) error {
	_, network := netip.ParsePrefix(text)
	_, address := netip.ParseAddr(text)
	if text != "" && network != nil && address != nil {
		return errors.New("want an address, or a network such as 10.0.0.0/8")
	}
	return nil
}

// within reports whether an address is the wanted one, or in the wanted network.
func within(want, got string) bool {
	if want == "" || want == got {
		return true
	}
	a, err := netip.ParseAddr(got)
	if err != nil {
		return false
	}
	if network, err := netip.ParsePrefix(want); err == nil {
		return network.Contains(a)
	}
	other, err := netip.ParseAddr(want)
	return err == nil && other.Unmap() == a
}

// What says in a line what has happened, for people.
func (r *Record) What() string {
	var parts []string
	add := func(label, value string) {
		if value != "" {
			parts = append(parts, label+value)
		}
	}
	if r.Kind != KindCall {
		add("", r.Event)
		add("", r.Upstream)
		add("", r.List)
		for _, change := range []struct {
			label string
			names []string
		}{{"added ", r.Added}, {"removed ", r.Removed}, {"changed ", r.Changed}} {
			add(change.label, strings.Join(change.names, " "))
		}
		add("", r.Reason)
		return strings.Join(parts, ", ")
	}
	add("", r.Decision)
	add("rule ", r.Rule)
	add("at ", r.RuleAt)
	add("", r.Approval)
	add("limit ", r.Limit)
	add("", r.Outcome)
	if r.Executed != "" && r.Executed != ExecutedYes {
		add("executed ", r.Executed)
	}
	add("", r.Reason)
	add("", strings.Join(r.Explained, "; "))
	add("server: ", r.ServerError)
	return strings.Join(parts, ", ")
}
