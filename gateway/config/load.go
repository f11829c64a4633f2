package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/keyfile"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// MaxBytes bounds the configuration file, in bytes.
const MaxBytes = 1 << 20

// Problem is one error, or as a warning one doubtful point, in a configuration.
type Problem = strictyaml.Problem

// Error holds all problems of a configuration, sorted by position.
type Error = strictyaml.Error

// Load reads a configuration file. Relative paths in it start at its directory. The error is a
// *Error with all problems. Warnings are returned in either case.
func Load(file string) (cfg Config, warnings []Problem, err error) {
	l, err := Read(file, nil)
	return l.Config, l.Warnings, err
}

// Loaded is the result of reading a configuration file.
type Loaded struct {
	Config   Config
	Warnings []Problem
	Doubts   []Problem         // probable mistakes, except API keys, which are findings of their own
	Refused  []string          // teams with mistakes in their files, which have what they had before
	Pending  []Problem         // the keys that wait for a restart, as warnings, too
	Revision string            // the first digits of the file's SHA-256
	Places   map[string]string // of the rules of policy by their names, file:line
	Text     []byte            // nil if the file cannot be read

	document *strictyaml.Document
	included map[string][]byte // texts of included files, by file
	files    []strictyaml.Seen // the file, those that references in it name, and the directory of descriptions
}

// Read is Load with a full result. If holds, the current configuration, is given, keys that only a
// restart can change stay as they are there.
func Read(file string, holds *Config) (Loaded, error) { return (&File{Path: file}).read(holds, nil) }

func (f *File) read(holds *Config, aside *aside) (Loaded, error) {
	data, _, this, err := strictyaml.SeeFile(f.Path, MaxBytes)
	if err != nil {
		return Loaded{files: []strictyaml.Seen{this}}, unreadable(f.Path, err)
	}
	src := strictyaml.Source{File: f.Path, Data: data, Env: os.LookupEnv}
	if f.AllowUnknown {
		src.Ignore = ignoreLater
	}
	l, err := readText(src, holds, aside)
	l.files = append(l.files, this)
	l.Text, l.Revision = data, RevisionOf(data)
	return l, err
}

// RevisionOf returns the revision of a configuration file.
func RevisionOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// Parse is Load for a text in memory. file names it in problems, and relative
// paths start at its directory; the file need not exist.
func Parse(file string, data []byte) (cfg Config, warnings []Problem, err error) {
	l, err := ReadText(file, data, nil, os.LookupEnv)
	return l.Config, l.Warnings, err
}

// Locate returns errors from elsewhere with their lines. Each must begin with the path of a key.
func (l Loaded) Locate(found []error) []Problem { return l.document.Locate(errors.Join(found...)) }

// LoadText is File.Load for a gateway that is to start, with a text that has no file. Relative paths in it
// start at the working directory.
func LoadText(name string, data []byte) (Loaded, error) {
	l, err := ReadText(name, data, nil, os.LookupEnv)
	if err == nil && len(data) > MaxBytes {
		err = unreadable(name, fmt.Errorf("larger than %d bytes", MaxBytes))
	}
	if err == nil {
		err = l.checkFiles()
	}
	return l, err
}

// ReadText is Read for a text in memory; env has the values of references to the environment.
func ReadText(file string, data []byte, holds *Config, env func(string) (string, bool)) (l Loaded, err error) {
	return readText(strictyaml.Source{File: file, Data: data, Env: env}, holds, nil)
}

func readText(src strictyaml.Source, holds *Config, aside *aside) (l Loaded, err error) {
	dir, err := filepath.Abs(filepath.Dir(src.File))
	if err != nil {
		return l, &Error{Problems: []Problem{{File: src.File, Message: "its directory is not known: " + err.Error()}}}
	}
	src.Dir = dir
	var cfg Config
	d := decodeConfig(src, &cfg, aside)
	problems := d.Problems()
	l.Doubts = slices.DeleteFunc(d.Locate(cfg.doubts()),
		func(p Problem) bool { return strings.HasPrefix(p.Path, "auth.keys") })
	l.document, l.Warnings, l.files = d, d.Warnings(), d.Files()
	if len(problems) > 0 {
		return l, &Error{Problems: problems}
	}
	cfg.resolvePaths(dir)
	if err := l.readKeys(&cfg, holds != nil && len(holds.Auth.Keys.Filed) > 0); err != nil {
		return l, err
	}
	cfg.Written = d.Written()
	if holds != nil {
		now, waiting := UntilRestart(cfg, *holds)
		l.Pending = d.Locate(waiting)
		if misfits := d.Locate(now.Validate()); len(misfits) > 0 && waiting != nil {
			return l, &Error{Problems: append(misfits, l.Pending...)}
		}
		cfg, l.Warnings = now, append(l.Warnings, l.Pending...)
	}
	l.Config, l.Places = cfg, rulePlaces(cfg, d)
	if cfg.Disclosure.Descriptions != "" {
		l.files = append(l.files, strictyaml.SeeDirectory(cfg.Disclosure.Descriptions))
	}
	if Pins(cfg) {
		_, _, lock, _ := strictyaml.SeeFile(cfg.Pinning.File, pin.MaxBytes)
		l.files = append(l.files, lock)
	}
	return l, nil
}

// readKeys reads the file of API keys, if one is configured. Before the first key there need not be
// any, but one that vanishes while the gateway runs, and had keys, is a mistake.
func (l *Loaded) readKeys(cfg *Config, had bool) error {
	if cfg.Auth.Keys.File == "" {
		return nil
	}
	keys := keyfile.Load(cfg.Auth.Keys.File, cfg.Auth.Keys, cfg.viewNames(), !had)
	cfg.Auth.Keys.Filed = keys.Keys
	l.files, l.Warnings = append(l.files, keys.Seen), append(l.Warnings, keys.Warnings...)
	if len(keys.Problems) > 0 {
		return &Error{Problems: keys.Problems}
	}
	return nil
}

// rulePlaces returns the places of the rules of policy by their names.
func rulePlaces(cfg Config, d *strictyaml.Document) map[string]string {
	places := make(map[string]string, len(cfg.Policy.Rules))
	for i, r := range cfg.Policy.Rules {
		places[r.Name] = d.At(fmt.Sprintf("policy.rules[%d]", i))
	}
	return places
}

// ReadGiven reads a file as ReadBlindly reads a text.
func ReadGiven(file string) (Loaded, error) {
	data, _, _, err := strictyaml.SeeFile(file, MaxBytes)
	if err != nil {
		return Loaded{}, unreadable(file, err)
	}
	return readBlindly(strictyaml.Source{File: file, Data: data, Dir: filepath.Dir(file)})
}

func unreadable(file string, err error) error {
	return &Error{Problems: []Problem{{File: file, Message: "cannot be read: " + err.Error()}}}
}

// ReadBlindly reads the text of a person who may know neither the environment nor the files of this
// machine, only the variables in known; nil for none. It does not report mistakes in lines with
// references, except where calls are decided by them.
func ReadBlindly(file string, data []byte, known func(string) (string, bool)) (l Loaded, err error) {
	return readBlindly(strictyaml.Source{File: file, Data: data, Env: known})
}

func readBlindly(src strictyaml.Source) (l Loaded, err error) {
	src.Blind = true
	file, data := src.File, src.Data
	d := decodeConfig(src, &l.Config, nil)
	texts := map[string][][]byte{file: bytes.Split(data, []byte("\n"))}
	refers := func(p Problem) bool {
		lines, read := texts[p.File]
		if !read {
			included, _, _, _ := strictyaml.SeeFile(p.File, MaxBytes) // include has said why it cannot be read
			lines = bytes.Split(included, []byte("\n"))
			texts[p.File] = lines
		}
		return p.Line > 0 && p.Line <= len(lines) && !strings.HasPrefix(p.Message, "unknown key") &&
			bytes.Contains(lines[p.Line-1], []byte("${"))
	}
	problems := slices.DeleteFunc(d.Problems(), func(p Problem) bool {
		decides := p.Path == "" || strings.HasPrefix(p.Path, "policy") || strings.HasPrefix(p.Path, "views") ||
			strings.HasSuffix(p.Path, "enabled") || strings.HasSuffix(p.Path, "mode")
		return !decides && refers(p)
	})
	l.Warnings = slices.DeleteFunc(d.Warnings(), refers)
	if len(data) > MaxBytes {
		problems = append(problems, Problem{File: file, Message: fmt.Sprintf("has more than %d bytes", MaxBytes)})
	}
	if len(problems) > 0 {
		return Loaded{}, &Error{Problems: problems}
	}
	l.Places = rulePlaces(l.Config, d)
	return l, nil
}

// restricting are parts of addresses of keys that say who may do what.
var restricting = regexp.MustCompile(`^(?:auth|tls|policy|limits|hooks|views|teams|pinning|admin|accounts|http|connections|sessions)\b|` +
	`^(?:defaults|upstreams\[\d+\])(?:$|\.(?:auth|pinning|sandbox|tls|limits)\b)`)

// ignoreLater ignores keys that restrict nothing.
func ignoreLater(address, key string) string {
	if restricting.MatchString(address) {
		return ignoreFormer(address, key)
	}
	return "is not known, and is ignored (--allow-unknown-keys)"
}

// ignoreFormer ignores keys of the last release.
func ignoreFormer(address, key string) string {
	if address == "connections" && key == "http_server" {
		return "has no effect since net/http serves all clients: take it out"
	}
	return ""
}

func decodeConfig(src strictyaml.Source, cfg *Config, aside *aside) *strictyaml.Document {
	src.Least, src.Example = "upstreams", "listen: "+defaultListen
	const client = "this is a client's file: gatehouse init --from FILE makes a configuration of it"
	src.Foreign = map[string]string{"mcpServers": client, "mcp_servers": client, "servers": client,
		"context_servers": client}
	if src.Ignore == nil {
		src.Ignore = ignoreFormer
	}
	src.Inherit = strictyaml.Inheritance{Section: "defaults", List: "upstreams", Suits: inherits}
	d := strictyaml.Decode(src, cfg)
	d.Check(include(cfg, d, src, aside))
	d.Check(cfg.Validate())
	d.Doubt(errors.Join(cfg.doubts(), secretDoubt(*cfg, d.FromEnvironment())))
	return d
}

// checkFiles reports problems of the files and directories without which a gateway does not start.
func (l Loaded) checkFiles() error {
	if problems := l.document.Locate(checkFiles(l.Config)); len(problems) > 0 {
		return &Error{Problems: problems}
	}
	return nil
}

// File watches the file of the configuration.
type File struct {
	Path string
	// AllowUnknown ignores unknown keys, with a warning, except where they might restrict something: for the
	// configuration of a later release.
	AllowUnknown bool

	mu       sync.Mutex        // guards the fields below
	files    []strictyaml.Seen // at the last load
	last     []strictyaml.Seen // at the last look
	included map[string][]byte // of the configuration that was applied last, by name
}

// Load reads the file. For a gateway that is to start (holds is nil), it checks the files and directories
// that the file names, too. Where only files of teams have mistakes, these teams keep what they had at the last
// load, which is nothing at the first one, and the mistakes become doubts.
func (f *File) Load(holds *Config) (Loaded, error) {
	l, err := f.load(func(aside *aside) (Loaded, error) {
		l, err := f.read(holds, aside)
		if err == nil && holds == nil {
			err = l.checkFiles()
		}
		return l, err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = l.files
	return l, err
}

// LoadText is Load for a text that is to replace that of the file.
func (f *File) LoadText(text []byte, holds *Config) (Loaded, error) {
	l, err := f.load(func(aside *aside) (Loaded, error) {
		return readText(strictyaml.Source{File: f.Path, Data: text, Env: os.LookupEnv}, holds, aside)
	})
	l.Text, l.Revision = text, RevisionOf(text)
	return l, err
}

// Applied records what a gateway runs with now: what teams keep when their files have mistakes.
func (f *File) Applied(l Loaded) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.included = l.included
}

// load reads the configuration until no team is to be set aside.
func (f *File) load(read func(*aside) (Loaded, error)) (Loaded, error) {
	f.mu.Lock()
	aside := newAside(f.included)
	f.mu.Unlock()
	first, err := read(aside)
	l, mistakes := first, []Problem(nil)
	for err != nil {
		found := aside.add(err)
		if found == nil {
			return first, err
		}
		mistakes = append(mistakes, found...)
		l, err = read(aside)
	}
	l.files = append(l.files, first.files...) // those on disk, too
	l.Warnings, l.Doubts = append(mistakes, l.Warnings...), append(mistakes, l.Doubts...)
	l.Refused, l.included = slices.Sorted(maps.Keys(aside.teams)), aside.now
	return l, nil
}

// Still returns an error if the file has another revision.
func (f *File) Still(revision string) error {
	data, _, _, err := strictyaml.SeeFile(f.Path, MaxBytes)
	if err == nil && RevisionOf(data) != revision {
		err = admin.ErrFileChanged
	}
	return err
}

// Saved records that the file has been written, and the files that references in it name.
func (f *File) Saved(l Loaded) {
	_, _, this, _ := strictyaml.SeeFile(f.Path, MaxBytes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = append(l.files, this)
}

// Changed looks at the files. It reports whether they differ from those of the last load and
// are the same as at the last look: a file that is being written has to wait.
func (f *File) Changed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := make([]strictyaml.Seen, len(f.files))
	for i, was := range f.files {
		now[i] = was.Again()
	}
	settled := slices.Equal(now, f.last)
	f.last = now
	return settled && !slices.Equal(now, f.files)
}

// doubts returns settings that are allowed but probably not meant.
func (c Config) doubts() error {
	doubts := slices.Concat(c.PolicyDoubts(), viewDoubts(c), auditDoubts(c), c.exchangeDoubts(), whoDoubts(c),
		loopDoubts(c), stateDoubts(c), c.memoryDoubts(c.Memory().Limit))
	if n := len(c.Naming.Instructions); n > clients.ReadByAll {
		doubts.Add("naming: instructions: of all instructions, some clients read only 2 KB: with these %d bytes, they read nothing of what servers say (docs/clients.md)", n)
	}
	u, err := url.Parse(c.PublicURL)
	doubts.When(err == nil && !c.TLS.IsZero() && u.Scheme == "http",
		"public_url: begins with http, and the listener has TLS: say https, or take tls away")
	if err == nil && c.PublicURL != "" && !loopback.Host(u.Hostname()) && !c.Auth.Identifies() {
		doubts.Add("public_url: without authentication, everyone whom a proxy lets through from %s can use every upstream",
			u.Hostname())
	}
	doubts.At("auth.keys", apikey.Doubts("entries", c.Auth.Keys.Entries, time.Now(), keyfile.Soon))
	return doubts.Err()
}

// exchangeDoubts reports upstreams with tokens exchanged at a server that does not know those of auth.server.
func (c Config) exchangeDoubts() (doubts problems.List) {
	for i, u := range c.Upstreams {
		doubts.When(c.Auth.Server.Enabled && Enabled(u) && u.Auth.Type == outbound.TypeTokenExchange,
			"%s: auth: token_exchange works for callers with a token of the issuer itself alone: it does not know the tokens of auth.server", UpstreamKey(i, u))
	}
	return doubts
}

// auditDoubts returns probable mistakes in the section "audit".
func auditDoubts(c Config) (doubts problems.List) {
	for i, r := range c.Policy.Rules {
		doubts.When(len(r.Record.Arguments) > 0 && c.Audit.IsZero() && !c.Admin.Operated(),
			"policy: rules[%d]: record: nothing is recorded: there is no section audit", i)
	}
	return doubts
}

// PolicyDoubts returns probable mistakes in policy, limits and hooks.
func (c Config) PolicyDoubts() (doubts problems.List) {
	servers := c.UpstreamNames()
	doubts.At("policy", c.Policy.Doubts(servers)...)
	doubts.At("limits", c.Limits.Doubts(servers)...)
	doubts.At("hooks", c.Hooks.Doubts(servers)...)
	return doubts
}

// Operators returns the section admin of a file, and its mistakes, even if the rest of the file is invalid.
func Operators(file string) (Admin, error) {
	data, _, _, err := strictyaml.SeeFile(file, MaxBytes)
	if err != nil {
		return Admin{}, unreadable(file, err)
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return Admin{}, unreadable(file, err)
	}
	var cfg Config
	d := decodeConfig(strictyaml.Source{File: file, Data: data, Dir: dir, Env: os.LookupEnv}, &cfg, nil)
	problems := slices.DeleteFunc(d.Problems(),
		func(p Problem) bool { return p.Path != "" && !strings.HasPrefix(p.Path, "admin.") })
	cfg.resolvePaths(dir)
	if len(problems) > 0 {
		return cfg.Admin, &Error{Problems: problems}
	}
	return cfg.Admin, nil
}

// DecidesBlindly returns an error for references that were not looked up but decide on calls.
func DecidesBlindly(l Loaded) error {
	var found problems.List
	blind := func(key string, section any) {
		if text, err := json.Marshal(section); err != nil || bytes.Contains(text, []byte(strictyaml.StandIn)) {
			found.Add("%s: has a reference, which is not looked up here: write what it stands for", key)
		}
	}
	blind("policy", l.Config.Policy)
	for i, v := range l.Config.Views {
		blind(ViewKey(i, v), v)
	}
	for i, issuer := range l.Config.Auth.Issuers {
		blind(fmt.Sprintf("auth.issuers[%d].url", i), issuer.URL)
	}
	for i, u := range l.Config.Upstreams {
		blind(fmt.Sprintf("upstreams[%d].name", i), u.Name)
	}
	if len(found) == 0 {
		return nil
	}
	return strictyaml.Unplaced(found.Err())
}
