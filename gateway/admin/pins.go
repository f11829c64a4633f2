package admin

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Pin is a definition of a pinned server that is not approved as it is.
type Pin struct {
	Upstream string `json:"upstream"`
	List     string `json:"list"`           // such as tools, or instructions
	Name     string `json:"name,omitempty"` // the server's own
	// New says that nothing of this name is approved; else Differs names the members that are not as approved.
	New     bool     `json:"new"`
	Differs []string `json:"differs,omitempty"`
	// Deceives are texts in it that people cannot see.
	Deceives []string `json:"deceives,omitempty"`
	// Hidden says that clients do not see it.
	Hidden     bool    `json:"hidden"`
	Definition mcp.Raw `json:"definition"`
	// Digest is that of the definition, as in the lock file; approving needs it.
	Digest string `json:"digest"`
	// Diff has the lines that are not as approved, with invisible characters written as <U+200B>.
	Diff string `json:"diff,omitempty"`
}

// PinApproval is an operator's approval of definitions.
type PinApproval struct {
	Pins []PinDigest `json:"pins"`
	// Keep says that earlier approvals of these things stay valid, too. Those of servers that get
	// each user's own credential always do.
	Keep bool `json:"keep,omitempty"`
}

// PinDigest names a definition that a server has shown.
type PinDigest struct {
	Upstream string `json:"upstream"`
	List     string `json:"list"`
	Name     string `json:"name,omitempty"`
	Digest   string `json:"digest"`
}

// Approved is the result of a PinApproval.
type Approved struct {
	Approved int    `json:"approved"` // definitions
	File     string `json:"file"`     // the lock file, which has them now
}
