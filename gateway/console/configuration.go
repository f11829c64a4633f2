package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// configurationPage shows what holds, the file, and how it got there.
var configurationPage = page{
	path: "/configuration", title: "Configuration", menu: "Configuration", look: "configuration", role: admin.RoleViewer,
	show: showConfiguration, fresh: 5 * time.Second,
}

// Parts of the page, by the parameter "show".
const (
	showEffective = "effective"
	showFile      = "file"
	showHistory   = "history"
)

type configurationData struct {
	Show    string
	State   admin.State
	NoFile  bool
	Text    string // of the part
	Hidden  string // why there is none
	Masked  bool
	InForce bool
	File    string
	History []configurationChange
}

// configurationChange is a reading of the file, with the lines of its difference.
type configurationChange struct {
	admin.ConfigChange
	Lines []diffLine
}

func showConfiguration(v *visit) (any, error) {
	d := configurationData{Show: v.form("show")}
	if d.Show != showFile && d.Show != showHistory {
		d.Show = showEffective
	}
	if err := v.get("/config", nil, &d.State); err != nil {
		return nil, err
	}
	var err error
	switch d.Show {
	case showEffective:
		var answer admin.EffectiveConfig
		err = v.get("/config/effective", nil, &answer)
		d.Text, d.Hidden = answer.Text, answer.Hidden
	case showFile:
		var answer admin.ConfigText
		err = v.get("/config/text", nil, &answer)
		d.Text, d.Hidden, d.Masked, d.InForce, d.File = answer.Text, answer.Hidden, answer.Masked, answer.InForce, answer.File
	case showHistory:
		var answer struct{ History []admin.ConfigChange }
		err = v.get("/config/history", nil, &answer)
		for _, c := range answer.History {
			d.History = append(d.History, configurationChange{c, diffLines(c.Diff)})
		}
	}
	if refused, ok := errors.AsType[*apiError](err); ok && refused.Status == http.StatusNotFound {
		d.NoFile, err = true, nil
	}
	return d, err
}

// editPage is where a text is changed, checked, downloaded and saved.
var editPage = page{path: "/configuration/edit", title: "Edit the configuration", look: "edit", role: admin.RoleViewer, show: showEdit}

type editData struct {
	Text     string
	Revision string // of the file that is edited
	Save     bool   // the operator may save
	Hidden   string
	Masked   bool
	Check    *admin.ConfigCheck // of this text; nil if it was not checked
	Problems []placedProblem
	Warnings []placedProblem
	Refused  string // why it was not saved
	Unseen   []int  // the first lines with characters that cannot be seen
}

func showEdit(v *visit) (any, error) {
	var file admin.ConfigText
	if err := v.get("/config/text", nil, &file); err != nil {
		return nil, err
	}
	return editData{Text: file.Text, Revision: file.Revision, Save: file.Save && v.Can(admin.RoleOperator), Hidden: file.Hidden, Masked: file.Masked, Unseen: unseen(file.Text)}, nil
}

// mostUnseen bounds the lines that are named.
const mostUnseen = 10

// unseen returns the first lines that do not look like what they are: an editor has to show them
// as they are.
func unseen(text string) (lines []int) {
	n := 0
	for line := range strings.Lines(text) {
		if n++; len(lines) < mostUnseen && strings.ContainsFunc(strings.TrimRight(line, "\r\n"), func(c rune) bool { return c != '\t' && webpage.Hidden(c) }) {
			lines = append(lines, n)
		}
	}
	return lines
}

// edited is the text of the form, as it stands in a file.
func edited(v *visit) admin.ConfigDraft {
	return admin.ConfigDraft{Text: strings.ReplaceAll(v.r.FormValue("text"), "\r\n", "\n"), Revision: v.form("revision")}
}

// openEditor opens the editor with a text that another page has made.
var openEditor = action{path: "/configuration/edit", role: admin.RoleViewer, do: func(v *visit) error { return v.checked(edited(v), "") }}

// checkText says what is wrong with a text, and what it would change.
var checkText = action{path: "/configuration/check", role: admin.RoleViewer, do: func(v *visit) error { return v.checked(edited(v), "") }}

// downloadText gives back the text as a file.
var downloadText = action{path: "/configuration/download", role: admin.RoleViewer, do: func(v *visit) error {
	h := v.w.Header()
	h.Set("Content-Type", "application/yaml; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="gatehouse.yaml"`)
	_, _ = v.w.Write([]byte(edited(v).Text))
	return nil
}}

// saveText writes the text into the file and applies it.
var saveText = action{path: "/configuration/save", role: admin.RoleOperator, do: func(v *visit) error {
	d := edited(v)
	err := v.ask(http.MethodPost, "/config/save", d, nil)
	refused, ok := errors.AsType[*apiError](err)
	switch {
	case err == nil:
		return v.redirect("/configuration?show="+showHistory, "saved")
	case !ok:
		return err
	case refused.Status == http.StatusUnprocessableEntity:
		return v.checked(d, "The text was not saved, and nothing has changed: correct what is wrong.")
	}
	return v.checked(d, sentence(refused.Message))
}}

// checked shows the editor with a text and what the API says of it.
func (v *visit) checked(d admin.ConfigDraft, refused string) error {
	shown, err := showEdit(v)
	if err != nil {
		return err
	}
	page := shown.(editData)
	page.Text, page.Refused, page.Hidden, page.Unseen = d.Text, refused, "", unseen(d.Text)
	if d.Revision != "" {
		page.Revision = d.Revision
	}
	page.Check = &admin.ConfigCheck{}
	if err := v.ask(http.MethodPost, "/config/check", d, page.Check); err != nil {
		return err
	}
	page.Problems, page.Warnings = placed(d.Text, page.Check.Problems), placed(d.Text, page.Check.Warnings)
	status := http.StatusOK
	if refused != "" {
		status = http.StatusConflict
	}
	v.render(status, editPage, page)
	return nil
}

// refusedProblems returns the problems that the API gave for an answer with 422, nil for others.
func refusedProblems(err error) []admin.Problem {
	refused, ok := errors.AsType[*apiError](err)
	if !ok || refused.Status != http.StatusUnprocessableEntity {
		return nil
	}
	var bad admin.BadDraft
	if json.Unmarshal(refused.Body, &bad) != nil || len(bad.Problems) == 0 {
		return []admin.Problem{{Message: fmt.Sprint(refused)}}
	}
	return bad.Problems
}
