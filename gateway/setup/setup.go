package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
)

// Bounds of the texts that are read.
const (
	MostBytes   = 16 << 20 // Claude Code's has megabytes
	mostServers = 200
	mostNotes   = 200
	mostText    = 8 << 10 // of one value, in bytes
)

// Server is one server as the configuration has it.
type Server struct {
	Name    string
	URL     string
	Headers []Pair
	Command []string
	Env     []Pair
	Dir     string
	Off     bool // it stands in the configuration, and is not used
	OAuth   bool // its users sign in there
}

// Pair is a header or a variable. Its value may have references.
type Pair struct{ Name, Value string }

// Variable is a variable that the environment of the gateway must have, since the configuration
// refers to it.
type Variable struct {
	Name string `json:"name"`
	For  string `json:"for"` // where it is used, such as "github: env GITHUB_TOKEN"

	value string // as the client had it
}

// Note is a remark about a setting that could not be taken over, or that users should know. Server
// is "" if it is about all.
type Note struct {
	Server string `json:"server,omitempty"`
	Text   string `json:"text"`
}

// Draft holds the servers that were read.
type Draft struct {
	Servers   []Server
	Variables []Variable
	Notes     []Note

	entries []entry           // that were read, also of servers that were there already
	known   int               // of these, those of earlier texts
	dir     string            // directory of the wanted servers, "" for all
	inputs  map[string]string // descriptions of what VS Code asks its user, by their ids
}

// ErrNothing is the error for a text without servers.
var ErrNothing = errors.New("there is no server in it: paste a file with mcpServers (Claude, Cursor, Windsurf) servers (VS Code) or mcp_servers (Codex), a URL, or a command")

// Read adds the servers in the file of a client, or in lines with a URL or a command each, but those that are there
// already. Of a file with servers for directories, it takes those of dir; of all if dir is "".
func (d *Draft) Read(text, dir string) error {
	d.known = len(d.entries)
	notes := len(d.Notes)
	d.dir, d.inputs = strings.ReplaceAll(dir, `\`, "/"), nil
	if len(text) > MostBytes {
		return fmt.Errorf("it has more than %d bytes", MostBytes)
	}
	text = strings.TrimPrefix(strings.ToValidUTF8(text, "?"), "\ufeff")
	text = unfenced(strings.TrimSpace(text))
	var raw json.RawMessage
	var err error
	switch {
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "//"), strings.HasPrefix(text, "/*"):
		raw, err = standard(text)
	case strings.HasPrefix(text, "\""): // the inside of an object
		raw, err = standard("{" + strings.TrimSuffix(text, ",") + "}")
	case tomlHead.MatchString(text) && strings.Contains(text, "mcp_servers"):
		raw, err = jsonOfTOML(text)
	case strings.Contains("\n"+text, "\nupstreams:"):
		err = errors.New("this is a configuration of Gatehouse already: use it as it is")
	default:
		err = d.readLines(text)
	}
	if err != nil {
		return err
	}
	d.readJSON(raw)
	switch {
	case len(d.entries) > d.known:
		return nil
	case len(d.Notes) > notes:
		return errors.New(d.Notes[notes].Text)
	}
	return ErrNothing
}

// Arguments adds the servers of the arguments of a command line: URLs, or one command with its arguments.
func (d *Draft) Arguments(args []string) error {
	d.known = len(d.entries)
	for i, arg := range args {
		args[i] = strings.ToValidUTF8(arg, "?")
	}
	if slices.ContainsFunc(args, func(arg string) bool { return !isURL(arg) }) {
		d.add(entry{command: args})
		args = nil
	}
	for _, arg := range args {
		d.add(entry{url: arg})
	}
	if len(d.entries) == d.known {
		return ErrNothing
	}
	return nil
}

// Avoid gives servers other names where theirs are taken.
func (d *Draft) Avoid(taken []string) {
	for _, name := range taken {
		d.Servers = append(d.Servers, Server{Name: name})
	}
	mine := d.Servers[:len(d.Servers)-len(taken)]
	for i := range mine {
		name := mine[i].Name
		mine[i].Name = ""
		mine[i].Name = d.freeName(name)
	}
	d.Servers = mine
}

// SignIn records whether a server wants its users to sign in. It reports whether that is a change.
func (d *Draft) SignIn(name string, wanted bool) (changed bool) {
	for i := range d.Servers {
		if s := &d.Servers[i]; s.Name == name && s.OAuth != wanted && (!wanted || s.canSignIn()) {
			s.OAuth = wanted
			return true
		}
	}
	return false
}

// SignsIn reports whether users sign in at a server.
func (d *Draft) SignsIn(name string) bool {
	return slices.ContainsFunc(d.Servers, func(s Server) bool { return s.Name == name && s.OAuth })
}

// Open returns the draft without sign-ins, for finding out which servers want them.
func (d *Draft) Open() *Draft {
	open := *d
	open.Servers = slices.Clone(d.Servers)
	for i := range open.Servers {
		open.Servers[i].OAuth = false
	}
	return &open
}

// canSignIn reports whether the server has no other credential, and tokens are safe in transit.
func (s Server) canSignIn() bool {
	u, err := url.Parse(s.URL)
	return err == nil && len(s.Headers) == 0 && !strings.Contains(s.URL, "${") &&
		(u.Scheme == "https" || u.Scheme == "http" && loopback.Host(u.Hostname()))
}

// Values returns the variables with values in the client's file, for trying the servers. They are
// never written.
func (d *Draft) Values() map[string]string {
	values := make(map[string]string)
	for _, v := range d.Variables {
		if v.value != "" {
			values[v.Name] = v.value
		}
	}
	return values
}

func (d *Draft) note(server, format string, args ...any) {
	if len(d.Notes) < mostNotes {
		d.Notes = append(d.Notes, Note{server, fmt.Sprintf(format, args...)})
	}
}
