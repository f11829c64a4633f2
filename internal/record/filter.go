package record

import (
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Entry is what is read of a record to find and to show it.
type Entry struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	ID      string    `json:"id"`
	Event   string    `json:"event"`
	Reason  string    `json:"reason"`
	User    string    `json:"user"`
	Client  string    `json:"client"`
	Agent   string    `json:"agent"`
	View    string    `json:"view"`
	Session string    `json:"session"`
	// ClientAddress and UserAgent: see Record.
	ClientAddress string `json:"client_address"`
	UserAgent     string `json:"user_agent"`
	Method        string `json:"method"`
	Name          string `json:"name"`
	Upstream      string `json:"upstream"`
	Original      string `json:"original"`
	Decision      string `json:"decision"`
	Rule          string `json:"rule"`
	RuleAt        string `json:"rule_at"`
	Approval      string `json:"approval"`
	Approver      string `json:"approver"`
	Limit         string `json:"limit"`
	Outcome       string `json:"outcome"`
	Executed      string `json:"executed"`
	// Explained and ServerError: see Record.
	Explained   []string `json:"explained"`
	ServerError string   `json:"server_error"`
	Duration    float64  `json:"duration_ms"`
	List        string   `json:"list"`
	Added       []string `json:"added"`
	Removed     []string `json:"removed"`
	Changed     []string `json:"changed"`
	Count       int64    `json:"count"`
}

// Call is what is read of the record of a call to decide on it again.
type Call struct {
	Entry
	Issuer          string   `json:"issuer"`
	Groups          []string `json:"groups"`
	Thing           string   `json:"thing"`
	File            string   `json:"file"`
	ArgumentsDigest string   `json:"arguments_digest"`
	Arguments       mcp.Raw  `json:"arguments"`
}

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
	// Kinds, Decisions and Outcomes are those of which one is enough.
	Kinds, Decisions, Outcomes []string
	// Since and Until bound the time; Until is not included.
	Since, Until time.Time
}

// Read calls do with each record that fits, as it is written and as it is read, until do
// returns an error. It skips lines that are no records, and keeps nothing.
func (f Filter) Read(from io.Reader, do func(line []byte, e *Entry) error) error {
	var failed error
	err := eachLine(from, func(line []byte) {
		var e Entry
		if failed == nil && json.Unmarshal(line, &e) == nil && f.Fits(&e) {
			failed = do(line, &e)
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// Fits reports whether a record is wanted.
func (f Filter) Fits(e *Entry) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	oneOf := func(want []string, got string) bool { return len(want) == 0 || slices.Contains(want, got) }
	return is(f.User, e.User) && is(f.ID, e.ID) && is(f.Session, e.Session) && is(f.Upstream, e.Upstream) && is(f.Rule, e.Rule) &&
		within(f.ClientAddress, e.ClientAddress) &&
		(f.UserAgent == "" || strings.Contains(strings.ToLower(e.UserAgent), strings.ToLower(f.UserAgent))) &&
		(f.Name == "" || f.Name == e.Name || f.Name == e.Original || f.Name == e.Upstream+"/"+e.Original) &&
		oneOf(f.Kinds, e.Kind) && oneOf(f.Decisions, e.Decision) && oneOf(f.Outcomes, e.Outcome) &&
		(f.Since.IsZero() || !e.Time.Before(f.Since)) && (f.Until.IsZero() || e.Time.Before(f.Until))
}

// FitsRecord is Fits for a record that has not been written.
func (f Filter) FitsRecord(r *Record) bool {
	e := r.entry()
	return f.Fits(&e)
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
func (e *Entry) What() string {
	var parts []string
	add := func(label, value string) {
		if value != "" {
			parts = append(parts, label+value)
		}
	}
	if e.Kind != KindCall {
		add("", e.Event)
		add("", e.Upstream)
		add("", e.List)
		for _, change := range []struct {
			label string
			names []string
		}{{"added ", e.Added}, {"removed ", e.Removed}, {"changed ", e.Changed}} {
			add(change.label, strings.Join(change.names, " "))
		}
		add("", e.Reason)
		return strings.Join(parts, ", ")
	}
	add("", e.Decision)
	add("rule ", e.Rule)
	add("at ", e.RuleAt)
	add("", e.Approval)
	add("limit ", e.Limit)
	add("", e.Outcome)
	if e.Executed != "" && e.Executed != ExecutedYes {
		add("executed ", e.Executed)
	}
	add("", e.Reason)
	add("", strings.Join(e.Explained, "; "))
	add("server: ", e.ServerError)
	return strings.Join(parts, ", ")
}
