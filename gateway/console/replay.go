package console

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
)

// replayPage has the form for a draft of the configuration, to be tried on recent calls.
var replayPage = page{path: "/policy/replay", title: "Try a draft", look: "replay", role: admin.RoleViewer,
	show: func(v *visit) (any, error) {
		return replayData{Since: "1h", Times: since("1h")}, nil
	}}

// tryDraft runs a draft. The answer is the page itself: a draft does not fit into a URL.
var tryDraft = action{path: "/policy/replay", role: admin.RoleViewer, do: func(v *visit) error {
	d := replayData{Since: v.form("since"), Draft: v.r.PostFormValue("draft")}
	d.Times = since(d.Since)
	if err := d.upload(v.r); err != nil {
		return err
	}
	if err := d.try(v); err != nil {
		return err
	}
	v.render(http.StatusOK, replayPage, d)
	return nil
}}

// mostReplayRows bounds the rows of a report on the page.
const mostReplayRows = 200

type replayData struct {
	Draft, Since string
	Times        []span
	Report       *replay.Report
	Counts       []changed
	Rows         []replay.Row
	MoreRows     int64
	Users        int // number of affected users
	Problems     []placedProblem
	Problem      string // why there is no report
}

// changed counts the calls that a draft changes in one respect.
type changed struct {
	Change, Text, Class string
	Calls               int64
}

// words name the effects of a draft, each with the class of its colour.
var words = map[string][2]string{
	replay.Refused: {"refused, and were not", "bad"}, replay.Asked: {"asked about, and were not", "warn"},
	replay.Allowed: {"allowed, and were not", "good"},
	replay.Rule:    {"decided alike, by another rule", ""}, replay.Untold: {"cannot be told", ""},
}

// upload takes a file in place of the text.
func (d *replayData) upload(r *http.Request) error {
	file, _, err := r.FormFile("file")
	if err != nil { // none was chosen
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if len(text) > 0 {
		d.Draft = string(text)
	}
	return err
}

// try runs the draft.
func (d *replayData) try(v *visit) error {
	if strings.TrimSpace(d.Draft) == "" {
		d.Problem = "There is no draft: paste the whole configuration with your changes, or choose its file."
		return nil
	}
	r, err := ask(v, admin.ReplayDraft, admin.Draft{Config: d.Draft, Since: d.Since})
	if bad, ok := errors.AsType[*admin.BadDraft](err); ok {
		d.Problem = "The draft is no configuration yet."
		d.Problems = placed(d.Draft, bad.Problems)
		return nil
	}
	if why, not := refused(err); not {
		d.Problem = why
		return nil
	}
	if err != nil {
		return err
	}
	d.Report = r
	users := make(map[string]bool)
	for _, row := range r.Rows {
		if row.Change != replay.Rule && row.Change != replay.Untold {
			users[row.User] = true
		}
	}
	d.Users = len(users)
	d.Rows = r.Rows[:min(len(r.Rows), mostReplayRows)]
	for _, row := range r.Rows[len(d.Rows):] {
		d.MoreRows += row.Count
	}
	d.MoreRows += r.MoreRows
	for _, change := range replay.Changes {
		if n := r.Changed[change]; n > 0 {
			d.Counts = append(d.Counts, changed{change, words[change][0], words[change][1], n})
		}
	}
	return nil
}

// since returns the periods of a form.
func since(chosen string) []span {
	all := []span{{Last: "15m", Text: "15 minutes"}, {Last: "1h", Text: "hour"}, {Last: "6h", Text: "6 hours"},
		{Last: "24h", Text: "day"}}
	if !slices.ContainsFunc(all, func(s span) bool { return s.Last == chosen }) {
		chosen = "1h"
	}
	for i := range all {
		all[i].Here = all[i].Last == chosen
	}
	return all
}
