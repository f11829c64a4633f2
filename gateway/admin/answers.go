package admin

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Page is the answer of /decisions.
type Page struct {
	Decisions []Decision `json:"decisions"` // newest first
	// Next is the parameter "before" of the next page, "" if there is none.
	Next string `json:"next,omitempty"`
	// Partial is the reason why records of other replicas may be missing, "" for none.
	Partial string `json:"partial,omitempty"`
}

// Decision is a record as operators see it. docs/audit.md has all members.
type Decision struct {
	record.Record
	Cursor string // its place among all
}

// MarshalJSON writes the members of the record, and the cursor.
func (d Decision) MarshalJSON() ([]byte, error) {
	return mcp.Raw(d.AppendJSON(nil)).With("cursor", mcp.String(d.Cursor)), nil
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (d *Decision) UnmarshalJSON(text []byte) error {
	cursor, _ := mcp.Raw(text).Member("cursor")
	d.Cursor = cursor.Text()
	return d.Record.UnmarshalJSON(text)
}

// Call is the answer of /calls/{id}.
type Call struct {
	ID     string   `json:"id"`
	Record Decision `json:"record"`
	// Layers are the decisions of each part of the gateway, from the outside in.
	Layers []Layer `json:"layers"`
	// Now is the decision of policy now; nil if it is unknown.
	Now *Answer `json:"now,omitempty"`
	// Steps show how the call spent its time, and Messages what was sent at both edges, as far as
	// the replica that ran it has them; NoTrail is why there are none. Values says that the messages
	// have the values that people, clients and servers chose; Missed counts messages without room.
	Steps    []Step    `json:"steps"`
	Messages []Message `json:"messages"`
	Values   bool      `json:"values"`
	Missed   int       `json:"missed,omitempty"`
	NoTrail  string    `json:"no_trail,omitempty"`
	// Curl is a command that makes the call again, "" if there is none; Arguments says that the
	// arguments are in it.
	Curl      string `json:"curl,omitempty"`
	Arguments bool   `json:"curl_arguments"`
	// Similar are the last other calls of the same thing, newest first.
	Similar []Decision `json:"similar"`
	Partial string     `json:"partial,omitempty"`
}

// Layer is the decision of one part of the gateway on a call.
type Layer struct {
	Layer string `json:"layer"`
	Said  string `json:"said"`
}

// Upstream is the state of a server.
type Upstream struct {
	Name string `json:"name"`
	// State is connecting, ready, degraded, needs-login, down, disabled or per user, since Since.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	// Transport is the transport to the server.
	Transport string `json:"transport"`
	// Revision is the protocol revision that the server speaks, Era whether that is a stateful
	// or a stateless one; "" while they are not known.
	Revision string `json:"revision,omitempty"`
	Era      string `json:"era,omitempty"`
	// Server and Version are the name and version that the server gives itself.
	Server  string `json:"server,omitempty"`
	Version string `json:"version,omitempty"`
	// Tools to Skills are the numbers of offered items.
	Tools     int `json:"tools"`
	Prompts   int `json:"prompts"`
	Resources int `json:"resources"`
	Skills    int `json:"skills"`
	// Tokens and Short estimate the tokens of the tools in a model's context, in full and with
	// short descriptions.
	Tokens int `json:"tokens"`
	Short  int `json:"tokens_short"`
	// Calls counts those under way, Sessions the open ones (or processes).
	Calls          int        `json:"calls"`
	Sessions       int        `json:"sessions"`
	LastFailure    *Failure   `json:"last_failure,omitempty"`
	RefusedUntil   *time.Time `json:"calls_refused_until,omitempty"`
	UsersNeedLogin int        `json:"users_need_login,omitempty"`
}

// Failure is the last failure of a server, as in /readyz.
type Failure struct {
	At    time.Time `json:"at"`
	Code  string    `json:"error_code"`
	Stage string    `json:"stage"`
	Error string    `json:"error"`
	Cause string    `json:"cause,omitempty"`
}

// Session is a session of a stateful client.
type Session struct {
	// Session is a digest, as in records: the id itself would give access to the session.
	Session string `json:"session"`
	User    string `json:"user,omitempty"`
	// Client is the id of the OAuth client; ClientName and ClientVersion are those that the client
	// gives itself.
	Client        string    `json:"client,omitempty"`
	ClientName    string    `json:"client_name,omitempty"`
	ClientVersion string    `json:"client_version,omitempty"`
	View          string    `json:"view,omitempty"`
	Revision      string    `json:"revision"`
	Replica       string    `json:"replica"` // that owns it
	Started       time.Time `json:"started"`
	Used          time.Time `json:"used"`
	// Calls counts those under way, Streams the open GET streams, Questions those without an answer.
	Calls     int `json:"calls"`
	Streams   int `json:"streams"`
	Questions int `json:"questions"`
	// OwnLists are the servers that show this session other lists than they show otherwise.
	OwnLists []string `json:"own_lists,omitempty"`
}

// Replica is a gateway of those that share sessions.
type Replica struct {
	Name string `json:"name"`
	// Self says that it is the one that answers.
	Self     bool   `json:"self"`
	Address  string `json:"address,omitempty"`
	Revision string `json:"revision,omitempty"` // of its configuration
	Leaving  bool   `json:"leaving,omitempty"`
	Error    string `json:"error,omitempty"` // why it cannot be reached
}

// Reload is the result of a reload.
type Reload struct {
	Applied  bool   `json:"applied"`
	Revision string `json:"revision,omitempty"` // of the configuration in force
	// Problems are the reasons why nothing was changed.
	Problems []Problem `json:"problems,omitempty"`
	// Pending are the keys that wait for a restart.
	Pending []Problem `json:"pending_restart,omitempty"`
}

// refusedReload is the error of a reload that has changed nothing.
type refusedReload struct{ Reload }

func (*refusedReload) Error() string { return "the configuration is refused" }

// Problem is one mistake in a configuration. Line is 0 if it has none.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// Question is a call that policy is asked about, as in gatehouse explain.
type Question struct {
	Method string   `json:"method"`
	Name   string   `json:"name"`
	Args   mcp.Raw  `json:"args,omitempty"`
	Issuer string   `json:"issuer,omitempty"`
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	Client string   `json:"client,omitempty"`
	Claims mcp.Raw  `json:"claims,omitempty"`
	View   string   `json:"view,omitempty"`
}

// Answer is a decision on a Question.
type Answer struct {
	// Effect is allow, ask or deny.
	Effect string `json:"effect"`
	// Rule is the rule that decides, at a place file:line; "" for the default.
	Rule   string `json:"rule,omitempty"`
	RuleAt string `json:"rule_at,omitempty"`
	// Text gives the reasons, rule by rule.
	Text string `json:"text"`
	// Hooks name the hooks that would run.
	Hooks []string `json:"hooks,omitempty"`
	// Notes tell what cannot be known.
	Notes []string `json:"notes,omitempty"`
}

// Draft is a configuration to try on recent calls.
type Draft struct {
	// Config is its text, in YAML. References in it are not looked up.
	Config string `json:"config"`
	// Since and Until bound the time of the calls, as parameters do.
	Since string `json:"since,omitempty"`
	Until string `json:"until,omitempty"`

	Filter    record.Filter `json:"-"` // what Since and Until say
	Arguments bool          `json:"-"` // the operator may see those of calls
}

// BadDraft is the error of a draft that is no configuration.
type BadDraft struct {
	Problems []Problem `json:"problems"`
}

func (e *BadDraft) Error() string { return "the draft is no configuration" }

// State describes the configuration in force. It has no secrets.
type State struct {
	Revision string    `json:"revision,omitempty"`
	Loaded   time.Time `json:"loaded"`
	Tried    time.Time `json:"tried"`
	// Problems are the reasons why the present file is not in use.
	Problems []Problem `json:"problems,omitempty"`
	// Pending are the keys that wait for a restart.
	Pending []Problem `json:"pending_restart,omitempty"`
	// Warnings are probable mistakes.
	Warnings []Problem        `json:"warnings,omitempty"`
	Listen   string           `json:"listen"`
	Endpoint string           `json:"endpoint"`
	Auth     string           `json:"auth"`
	Sessions string           `json:"sessions"`
	Policy   string           `json:"policy"`
	Limits   []string         `json:"limits,omitempty"`
	Audit    string           `json:"audit,omitempty"`
	Servers  []ConfiguredOne  `json:"upstreams"`
	Views    []ConfiguredView `json:"views,omitempty"`
}

// ConfiguredOne is a server in the configuration.
type ConfiguredOne struct {
	Name      string `json:"name"`
	Enabled   bool   `json:"enabled"`
	Transport string `json:"transport"`
	Target    string `json:"target"` // a URL without its query, or a program
	Auth      string `json:"auth"`
	Prefix    string `json:"prefix"`
	Sandbox   string `json:"sandbox,omitempty"` // what a program in a box may use; "" for no box
}

// ConfiguredView is a view in the configuration.
type ConfiguredView struct {
	Name string   `json:"name"`
	URL  string   `json:"url"`
	Show []string `json:"show"`
}

// Answers with a list, as objects, so that members can be added.
type (
	// Pins are the definitions that are not approved.
	Pins struct {
		Pins []Pin `json:"pins"`
	}
	// Upstreams are the servers.
	Upstreams struct {
		Upstreams []Upstream `json:"upstreams"`
	}
	// Sessions are those of all replicas but the missing ones, which do not answer.
	Sessions struct {
		Sessions []Session `json:"sessions"`
		Missing  []string  `json:"missing,omitempty"`
	}
	// Replicas are the gateways that share sessions.
	Replicas struct {
		Replicas []Replica `json:"replicas"`
	}
)
