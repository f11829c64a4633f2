package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Bounds of the texts that are read.
const (
	MostBytes   = 1 << 20
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

	dir    string            // directory of the wanted servers, "" for all
	inputs map[string]string // descriptions of what VS Code asks its user, by their ids
}

// ErrNothing is the error for a text without servers.
var ErrNothing = errors.New("there is no server in it: paste a file with mcpServers (Claude, Cursor, Windsurf) servers (VS Code) or mcp_servers (Codex), a URL, or a command")

// Read reads the file of a client, or lines with a URL or a command each. Of a file with servers for
// directories, it takes those of dir; of all if dir is "".
func Read(text, dir string) (*Draft, error) {
	d := &Draft{dir: strings.ReplaceAll(dir, `\`, "/")}
	if len(text) > MostBytes {
		return nil, fmt.Errorf("it has more than %d bytes", MostBytes)
	}
	text = unfenced(strings.TrimSpace(utf8Text(text)))
	if strings.HasPrefix(text, "//") || strings.HasPrefix(text, "/*") { // lines begin with a program or a URL
		if raw, err := standard(text); err == nil {
			text = strings.TrimSpace(string(raw))
		}
	}
	var raw json.RawMessage
	var err error
	switch {
	case strings.HasPrefix(text, "{"):
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
		return nil, err
	}
	d.readJSON(raw)
	if len(d.Servers) == 0 {
		if len(d.Notes) > 0 {
			return nil, errors.New(d.Notes[0].Text)
		}
		return nil, ErrNothing
	}
	return d, nil
}

// Arguments reads the arguments of a command line: URLs, or one command with its arguments.
func Arguments(args []string) (*Draft, error) {
	d := &Draft{}
	for i, arg := range args {
		args[i] = strings.ToValidUTF8(arg, "?")
	}
	if len(args) > 0 && !slices.ContainsFunc(args, func(arg string) bool { return !isURL(arg) }) {
		for _, arg := range args {
			d.add(entry{url: arg})
		}
	} else if len(args) > 0 {
		d.add(entry{command: args})
	}
	if len(d.Servers) == 0 {
		return nil, ErrNothing
	}
	return d, nil
}

// Merge adds the servers of another draft. One that is there already is left out. A variable that has
// another value here gets another name.
func (d *Draft) Merge(other *Draft) {
	for i := range other.Variables {
		v := &other.Variables[i]
		name := v.Name
		for n := 2; d.differs(*v) || v.Name != name && other.has(v.Name) > 1; n++ {
			v.Name = fmt.Sprintf("%s_%d", name, n)
		}
		if v.Name != name {
			other.rename("${env:"+name+"}", "${env:"+v.Name+"}")
		}
	}
	for _, s := range other.Servers {
		same := func(known Server) bool {
			return known.URL == s.URL && slices.Equal(known.Command, s.Command) && slices.Equal(known.Env, s.Env) &&
				slices.Equal(known.Headers, s.Headers)
		}
		if slices.ContainsFunc(d.Servers, same) || len(d.Servers) >= mostServers {
			continue
		}
		s.Name = d.freeName(s.Name)
		d.Servers = append(d.Servers, s)
	}
	for _, v := range other.Variables {
		if !slices.ContainsFunc(d.Variables, func(known Variable) bool { return known.Name == v.Name }) {
			d.Variables = append(d.Variables, v)
		}
	}
	d.Notes = append(d.Notes, other.Notes...)
}

// differs reports whether a variable has another value here.
func (d *Draft) differs(v Variable) bool {
	return slices.ContainsFunc(d.Variables, func(known Variable) bool {
		return known.Name == v.Name && known.value != v.value && known.value != "" && v.value != ""
	})
}

// has returns how many variables have a name.
func (d *Draft) has(name string) (n int) {
	for _, v := range d.Variables {
		if v.Name == name {
			n++
		}
	}
	return n
}

// rename replaces a reference by another one.
func (d *Draft) rename(was, is string) {
	for i := range d.Servers {
		s := &d.Servers[i]
		s.URL, s.Dir = strings.ReplaceAll(s.URL, was, is), strings.ReplaceAll(s.Dir, was, is)
		for j := range s.Command {
			s.Command[j] = strings.ReplaceAll(s.Command[j], was, is)
		}
		for _, pairs := range [][]Pair{s.Env, s.Headers} {
			for j := range pairs {
				pairs[j].Value = strings.ReplaceAll(pairs[j].Value, was, is)
			}
		}
	}
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
		(u.Scheme == "https" || u.Scheme == "http" && isHere(u.Hostname()))
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
