package console

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// configurationPage shows the configuration in force, the file, and its history.
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
	var err error
	if d.State, err = ask(v, admin.GetState, admin.None{}); err != nil {
		return nil, err
	}
	switch d.Show {
	case showEffective:
		var e admin.EffectiveConfig
		e, err = ask(v, admin.GetEffectiveConfig, admin.None{})
		d.Text, d.Hidden = e.Text, e.Hidden
	case showFile:
		var f admin.ConfigText
		f, err = ask(v, admin.GetConfigText, admin.None{})
		d.Text, d.Hidden, d.Masked, d.InForce, d.File = f.Text, f.Hidden, f.Masked, f.InForce, f.File
	case showHistory:
		var changes admin.ConfigChanges
		changes, err = ask(v, admin.GetConfigHistory, admin.None{})
		for _, c := range changes.History {
			d.History = append(d.History, configurationChange{c, diffLines(c.Diff)})
		}
	}
	if _, d.NoFile = refused(err, http.StatusNotFound); d.NoFile {
		err = nil
	}
	return d, err
}

// editPage lets operators change, check, download and save a text.
var editPage = page{path: "/configuration/edit", title: "Edit the configuration", look: "edit",
	role: admin.RoleViewer, show: showEdit}

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
	file, err := ask(v, admin.GetConfigText, admin.None{})
	return editData{
		Text:     file.Text,
		Revision: file.Revision,
		Save:     file.Save && v.Can(admin.RoleOperator),
		Hidden:   file.Hidden,
		Masked:   file.Masked,
		Unseen:   unseen(file.Text),
	}, err
}

// mostUnseen bounds the lines that are named.
const mostUnseen = 10

// unseen returns the first lines with invisible characters, since an editor has to show them as
// they are.
func unseen(text string) (lines []int) {
	n := 0
	for line := range strings.Lines(text) {
		if n++; len(lines) < mostUnseen && strings.ContainsFunc(strings.TrimRight(line, "\r\n"),
			func(c rune) bool { return c != '\t' && webpage.Hidden(c) }) {
			lines = append(lines, n)
		}
	}
	return lines
}

// edited returns the text of the form, as it stands in a file.
func edited(v *visit) admin.ConfigDraft {
	return admin.ConfigDraft{Text: strings.ReplaceAll(v.r.FormValue("text"), "\r\n", "\n"), Revision: v.form("revision")}
}

// openEditor opens the editor with a text that another page has made.
var openEditor = action{path: "/configuration/edit", role: admin.RoleViewer,
	do: func(v *visit) error { return v.checked(edited(v), "") }}

// checkText shows the mistakes in a text, and what it would change.
var checkText = action{path: "/configuration/check", role: admin.RoleViewer,
	do: func(v *visit) error { return v.checked(edited(v), "") }}

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
	_, err := ask(v, admin.SaveConfig, d)
	why, not := refused(err)
	switch _, bad := errors.AsType[*admin.BadDraft](err); {
	case err == nil:
		return v.redirect("/configuration?show="+showHistory, "saved")
	case bad:
		return v.checked(d, "The text was not saved, and nothing has changed: correct what is wrong.")
	case not:
		return v.checked(d, why)
	}
	return err
}}

// checked shows the editor with a text and its mistakes.
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
	check, err := ask(v, admin.CheckConfig, d)
	if err != nil {
		return err
	}
	page.Check = &check
	page.Problems, page.Warnings = placed(d.Text, page.Check.Problems), placed(d.Text, page.Check.Warnings)
	status := http.StatusOK
	if refused != "" {
		status = http.StatusConflict
	}
	v.render(status, editPage, page)
	return nil
}
