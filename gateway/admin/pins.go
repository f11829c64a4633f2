package admin

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Pin is something that a pinned server offers, and that is not approved as it is.
type Pin struct {
	Upstream string `json:"upstream"`
	List     string `json:"list"`           // such as tools, or instructions
	Name     string `json:"name,omitempty"` // the server's own
	// New says that nothing of this name is approved; else Differs names what is not as approved.
	New     bool     `json:"new"`
	Differs []string `json:"differs,omitempty"`
	// Deceives are texts in it that people cannot see.
	Deceives []string `json:"deceives,omitempty"`
	// Hidden says that clients do not see it.
	Hidden     bool    `json:"hidden"`
	Definition mcp.Raw `json:"definition"`
	// Digest is that of the definition, as the lock file has it; with it, it can be approved.
	Digest string `json:"digest"`
	// Diff has the lines that are not as approved, with what is invisible written as <U+200B>.
	Diff string `json:"diff,omitempty"`
}

// PinApproval says what an operator approves.
type PinApproval struct {
	Pins []PinDigest `json:"pins"`
	// Keep says that what is approved of these things stays approved, too. Of servers that get each
	// user's own credential it always does.
	Keep bool `json:"keep,omitempty"`
}

// PinDigest names a definition that was seen.
type PinDigest struct {
	Upstream string `json:"upstream"`
	List     string `json:"list"`
	Name     string `json:"name,omitempty"`
	Digest   string `json:"digest"`
}

// Approved is what became of a PinApproval.
type Approved struct {
	Approved int    `json:"approved"` // definitions
	File     string `json:"file"`     // the lock file, which has them now
}
