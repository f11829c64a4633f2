package foureyes

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Call is a call that waits, as those who decide see it.
type Call struct {
	// ID is that of the call in records, the log and errors.
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"` // then it is refused
	// Issuer to View are about the caller.
	Issuer string `json:"issuer,omitempty"`
	User   string `json:"user"`
	Client string `json:"client,omitempty"`
	View   string `json:"view,omitempty"`
	Method string `json:"method"`
	// Name is the public name or URI, Original the server's own; File is that of a skill.
	Name     string `json:"name"`
	Upstream string `json:"upstream"`
	Original string `json:"original"`
	File     string `json:"file,omitempty"`
	// Rules are the names of the rules that want the approval.
	Rules []string `json:"rules"`
	// Digest covers all that would run, and the caller.
	Digest string `json:"digest,omitempty"`
	// Arguments are as the client wrote them; Others is everything else that the server would
	// get.
	Arguments mcp.Raw `json:"arguments,omitempty"`
	Others    []Other `json:"others,omitempty"`
}

// Other is a member of a call's params, or of _meta there, that is no argument.
type Other struct {
	In    string  `json:"in,omitempty"` // _meta
	Name  string  `json:"name"`
	Value mcp.Raw `json:"value"`
}

// Verdict is the decision of an approver.
type Verdict struct {
	By      mcp.Caller
	Approve bool
	// Reason is the text that a refusal has for the caller, "" for none.
	Reason string
}
