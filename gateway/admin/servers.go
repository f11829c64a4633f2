package admin

import (
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Actions of operators on a server.
const (
	Probe     = "probe"
	Reconnect = "reconnect"
	Disable   = "disable"
	Enable    = "enable"
)

// ErrNoServer is for a name without a server in the configuration.
var ErrNoServer = refusal(http.StatusNotFound, failure.AdminNotFound,
	"there is no such server in the configuration that holds")

// NotNow is the error of an action that is impossible now: why, and what to do.
func NotNow(why string) error { return refusal(http.StatusConflict, failure.AdminRequest, why) }

// Server has all details of one server.
type Server struct {
	Upstream Upstream `json:"upstream"`
	Replica  string   `json:"replica"` // that answers, with its own states
	// Target is a URL without its query, or a program; Prefix is that of public names.
	Target string `json:"target"`
	Prefix string `json:"prefix"`
	// Disabled names the operator who has disabled it, if it is disabled.
	Disabled *Disabled `json:"disabled,omitempty"`
	// Timeline has the last changes of its state, newest first, 100 at most.
	Timeline []Change `json:"timeline"`
	// Probe has the requests that determined how to speak to it, oldest first.
	Probe []ProbeStep `json:"probe"`
	// Capabilities are those that the server declares.
	Capabilities mcp.Raw     `json:"capabilities,omitempty"`
	Credentials  Credentials `json:"credentials"`
	Pinning      Pinning     `json:"pinning"`
	// Hooks are those that look at some of its calls.
	Hooks     []LookingHook `json:"hooks"`
	Templates int           `json:"resource_templates"`
	Tools     Tools         `json:"tools"`
	// Withheld has the items that clients do not see, and why; 100 at most, and the number of further ones.
	Withheld     []WithheldItem `json:"withheld"`
	WithheldMore int            `json:"withheld_more,omitempty"`
}

// Disabled names the operator who has disabled a server, and the time.
type Disabled struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Change is a change of a server's state.
type Change struct {
	State string    `json:"state"`
	Since time.Time `json:"since"`
	Code  string    `json:"error_code,omitempty"`
	Stage string    `json:"stage,omitempty"`
	Error string    `json:"error,omitempty"`
	Cause string    `json:"cause,omitempty"`
	// By is the operator who caused it, Did the action.
	By  string `json:"by,omitempty"`
	Did string `json:"did,omitempty"`
}

// ProbeStep is a request of a probe.
type ProbeStep struct {
	At        time.Time `json:"at"`
	Method    string    `json:"method"`
	Revision  string    `json:"revision"` // that was offered
	Transport string    `json:"transport"`
	Took      float64   `json:"took_ms"`
	// Found is the result in the answer; else there was a failure.
	Found string `json:"found,omitempty"`
	Code  string `json:"error_code,omitempty"`
	Error string `json:"error,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// Credentials describe the credential that the gateway uses at a server. They have no secret.
type Credentials struct {
	// Type is that of the key auth: none, header, bearer, client_credentials or token_exchange.
	Type string `json:"type"`
	// Whose names the owner: nobody, gateway or each user.
	Whose string `json:"whose"`
	// State is none, accepted, refused or unknown.
	State string `json:"state"`
	// Refused counts the users with a credential that the server refused last.
	Refused int `json:"users_refused,omitempty"`
}

// Pinning tells how a server is held to its approved definitions.
type Pinning struct {
	Mode string `json:"mode"` // off, warn or block
	// File is the lock file, "" if nothing is pinned.
	File string `json:"file,omitempty"`
	// Waiting counts the definitions that were seen and are not approved.
	Waiting int `json:"waiting"`
}

// LookingHook is a hook that looks at calls.
type LookingHook struct {
	Name string   `json:"name"`
	On   []string `json:"on"`             // arguments, results
	What []string `json:"what,omitempty"` // its patterns; none for everything
}

// Tools are tools of a server, a page of them. Tokens are estimates: a token for four bytes of
// name, description and schema.
type Tools struct {
	Total int `json:"total"`
	// Tokens are those of all tools, in full; Short with descriptions in short.
	Tokens int    `json:"tokens"`
	Short  int    `json:"tokens_short"`
	Items  []Tool `json:"items"`
	// Next is the parameter "from" of the next page, 0 if there is none.
	Next int `json:"next,omitempty"`
}

// Tool is a tool of a server.
type Tool struct {
	Name   string `json:"name"`   // the server's own
	Public string `json:"public"` // that clients see
	Title  string `json:"title,omitempty"`
	Tokens int    `json:"tokens"`
	Short  int    `json:"tokens_short"`
}

// WithheldItem is an item that clients do not see.
type WithheldItem struct {
	List   string `json:"list"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// ToolPage selects a page of the tools of a server.
type ToolPage struct {
	Upstream    string
	From, Limit int
	ByTokens    bool // the largest ones first; else by their names
}

// Action is an operator's action on a server.
type Action struct {
	Upstream string
	What     string // Probe, Reconnect, Disable or Enable
	By       string
}

// Acted is the result of an Action.
type Acted struct {
	// Changed says that the action had an effect: the server was not disabled, or enabled, before. A
	// probe and a new connection always have one.
	Changed  bool        `json:"changed"`
	Upstream Upstream    `json:"upstream"` // as it is now
	Probe    []ProbeStep `json:"probe"`
	// Failure is the reason why the probe found nothing.
	Failure *Failure `json:"failure,omitempty"`
	// Missing are replicas that do not answer: there, nothing was done.
	Missing []string `json:"missing,omitempty"`
}
