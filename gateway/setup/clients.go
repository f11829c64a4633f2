package setup

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"
	"gopkg.in/yaml.v3"
)

// clientsYAML is the table of clients.
//
//go:embed clients.yaml
var clientsYAML []byte

// Client is a program that can use the gateway; clients.yaml explains the fields. Paths have / on all systems.
type Client struct {
	ID, Name, File, Windows, Older, Env, Project, Mark, Menu, Key, Next, Add string

	Form string `yaml:"entry"` // in JSON, with URL and PROGRAM
}

// Machine is where the files of clients are.
type Machine struct {
	System string // as runtime.GOOS names it
	Home   string
	Config string // the directory of settings: os.UserConfigDir
	// Env looks up variables with which clients move their files; nil for none.
	Env func(name string) string
}

// Clients returns the known clients.
func (m Machine) Clients() (all []Client) {
	if err := yaml.Unmarshal(clientsYAML, &all); err != nil {
		panic(err) // it is part of this program
	}
	xdg := m.Config
	if m.System == "darwin" || m.System == "windows" {
		xdg = path.Join(m.Home, ".config")
	}
	places := strings.NewReplacer("HOME", m.Home, "CONFIG", m.Config, "XDG", xdg)
	for i := range all {
		c := &all[i]
		if m.System == "windows" {
			c.File = cmp.Or(c.Windows, c.File)
		}
		c.File, c.Older, c.Mark = places.Replace(c.File), places.Replace(c.Older), places.Replace(c.Mark)
		if c.Env != "" && m.Env != nil && m.Env(c.Env) != "" {
			c.File, c.Mark = path.Join(m.Env(c.Env), path.Base(c.File)), ""
		}
		c.Mark = cmp.Or(c.Mark, path.Dir(c.File))
	}
	return all
}

// String returns the client with its file.
func (c Client) String() string { return c.Name + " (" + c.File + ")" }

// Starts reports whether the client starts a program, and cannot connect to URLs.
func (c Client) Starts() bool { return strings.Contains(c.Form, "PROGRAM") }

// Entry returns the entry for a gateway, in JSON. program is the path of gatehouse, which clients start that cannot
// connect to URLs.
func (c Client) Entry(url, program string) string {
	quoted := func(text string) string { return string(hujson.String(text)) }
	return strings.NewReplacer("URL", quoted(url), "PROGRAM", quoted(program)).Replace(c.Form)
}

// Wrote reports whether an entry, in JSON, is one for a gateway, whatever its URL and the path of the program.
func (c Client) Wrote(entry string) bool {
	var form any
	if json.Unmarshal([]byte(c.Entry("ANY", "ANY")), &form) != nil {
		return false
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(encoded(form)), `"ANY"`, `"([^"\\]|\\.)*"`)
	return regexp.MustCompile("^" + pattern + "$").MatchString(entry)
}

// Snippet is the text that one client needs to find the gateway.
type Snippet struct {
	Client string `json:"client"`
	// Where is the place for Text: a file, or a shell.
	Where string `json:"where"`
	Text  string `json:"text"`
}

// Snippets returns the text for each client to find the gateway at a URL.
func Snippets(endpoint string) (all []Snippet) {
	for _, c := range (Machine{Home: "~", Config: "~/.config"}).Clients() {
		s := Snippet{c.Name, "in " + c.File, ""}
		s.Text, _ = c.Set("", "gatehouse", c.Entry(endpoint, "gatehouse")) // an empty file takes it
		switch {
		case c.Add != "":
			s.Where, s.Text = "in a shell", strings.NewReplacer("NAME", "gatehouse", "URL", endpoint).Replace(c.Add)+"\n"
		case c.Menu != "":
			s.Where = "in " + path.Base(c.File) + " (" + c.Menu + ")"
		case c.Project != "":
			s.Where += ", or in " + c.Project + " of a project"
		}
		all = append(all, s)
	}
	return all
}
