package record

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// timeFormat is RFC 3339 in UTC, with microseconds.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// AppendJSON writes the record as an object, with the members of docs/audit.md but without
// those of a chain. Each of more is a member in front: a name and a text.
func (r *Record) AppendJSON(dst []byte, more ...string) []byte {
	begin := len(dst)
	w := members(dst)
	for i := 0; i+1 < len(more); i += 2 {
		w.text(more[i], more[i+1])
	}
	dst = r.appendMembers(w)
	dst[begin] = '{' // in place of the first comma: each record has a time
	return append(dst, '}')
}

// UnmarshalJSON reads what AppendJSON has written, or a line of a chain.
func (r *Record) UnmarshalJSON(text []byte) error {
	type members Record
	read := struct {
		*members
		Duration float64 `json:"duration_ms"`
		Hooks    []struct {
			mcp.HookRun
			Duration float64 `json:"duration_ms"`
		} `json:"hooks"`
	}{members: (*members)(r)}
	err := json.Unmarshal(text, &read)
	r.Duration = ofMilliseconds(read.Duration)
	for _, h := range read.Hooks {
		h.Took = ofMilliseconds(h.Duration)
		r.Hooks = append(r.Hooks, h.HookRun)
	}
	return err
}

// appendMembers writes the members of a record, each after a comma, in the order of the
// table in docs/audit.md.
func (r *Record) appendMembers(dst []byte) []byte {
	w := members(dst)
	w.time("time", r.Time)
	w.text("kind", r.Kind)
	w.text("id", r.ID)
	w.text("continues", r.Continues)
	w.text("event", r.Event)
	w.text("reason", r.Reason)
	w.text("issuer", r.Issuer)
	w.text("user", r.User)
	w.list("groups", r.Groups)
	w.text("client", r.Client)
	w.text("agent", r.Agent)
	w.text("view", r.View)
	w.text("session", r.Session)
	w.text("client_address", r.ClientAddress)
	w.text("user_agent", r.UserAgent)
	w.text("revision", r.Revision)
	w.text("era", r.Era)
	w.text("method", r.Method)
	w.text("name", r.Name)
	w.text("upstream", r.Upstream)
	w.text("original", r.Original)
	w.text("thing", r.Thing)
	w.text("file", r.File)
	w.text("upstream_revision", r.UpstreamRevision)
	w.text("upstream_era", r.UpstreamEra)
	w.text("decision", r.Decision)
	w.text("rule", r.Rule)
	w.text("rule_at", r.RuleAt)
	w.list("explained", r.Explained)
	w.text("approval", r.Approval)
	w.text("approver", r.Approver)
	w.text("limit", r.Limit)
	w.text("outcome", r.Outcome)
	w.number("code", int64(r.Code))
	w.text("error_code", r.Error)
	w.text("executed", r.Executed)
	w.text("server_error", r.ServerError)
	if r.Duration != 0 {
		w.name("duration_ms")
		w = milliseconds(w, r.Duration)
	}
	w.number("request_bytes", int64(r.RequestBytes))
	w.number("reply_bytes", int64(r.ReplyBytes))
	w.text("trace", r.Trace)
	w.text("arguments_digest", r.ArgumentsDigest)
	if r.Arguments != nil {
		w.name("arguments")
		w = append(w, r.Arguments...)
	}
	w.text("arguments_omitted", r.ArgumentsOmitted)
	w.hooks(r.Hooks)
	w.text("list", r.List)
	w.list("added", r.Added)
	w.list("removed", r.Removed)
	w.list("changed", r.Changed)
	w.text("config", r.Revised)
	w.number("count", r.Count)
	w.text("replica", r.Replica)
	w.time("started", r.Started)
	w.text("version", r.Version)
	w.number("torn", r.Torn)
	w.text("last", r.Last)
	return w
}

// members are the members of an object, as far as they are written. Zero values are left out.
type members []byte

func (w *members) name(name string) {
	*w = append(append(append(*w, ',', '"'), name...), '"', ':')
}

func (w *members) text(name, value string) {
	if value != "" {
		w.name(name)
		*w = mcp.AppendString(*w, Clip(value))
	}
}

func (w *members) list(name string, values []string) {
	if len(values) == 0 {
		return
	}
	w.name(name)
	for i, value := range values {
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		*w = mcp.AppendString(append(*w, separator), Clip(value))
	}
	*w = append(*w, ']')
}

func (w *members) hooks(ran []mcp.HookRun) {
	if len(ran) == 0 {
		return
	}
	w.name("hooks")
	separator := byte('[')
	for _, h := range ran {
		one := mcp.Object("name", mcp.String(h.Name), "on", mcp.String(h.On), "action", mcp.String(h.Action),
			"duration_ms", mcp.Raw(milliseconds(nil, h.Took)))
		*w = append(append(*w, separator), one...)
		separator = ','
	}
	*w = append(*w, ']')
}

func milliseconds(dst []byte, d time.Duration) []byte {
	return strconv.AppendFloat(dst, float64(d.Microseconds())/1000, 'f', -1, 64)
}

func ofMilliseconds(ms float64) time.Duration {
	return time.Duration(math.Round(ms*1000)) * time.Microsecond
}

func (w *members) number(name string, value int64) {
	if value != 0 {
		w.name(name)
		*w = strconv.AppendInt(*w, value, 10)
	}
}

func (w *members) time(name string, value time.Time) {
	if !value.IsZero() {
		w.name(name)
		*w = append(value.UTC().AppendFormat(append(*w, '"'), timeFormat), '"')
	}
}

// cutEnd is at the end of a text that was cut.
const cutEnd = "..."

// Clip shortens a text that is too long for a record, and says so at its end.
func Clip(text string) string {
	if len(text) <= maxText || Cut(text) && len(text) <= maxText+len(cutEnd) {
		return text
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + cutEnd
}

// Cut reports whether a text of a record may be only the beginning of what it was.
func Cut(text string) bool { return len(text) >= maxText && strings.HasSuffix(text, cutEnd) }
