package hooks

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Kinds of content.
const (
	kindArguments = "arguments"
	kindAnswer    = "answer"   // of the user, to a question in mid-call
	kindResult    = "result"   //
	kindError     = "error"    // the error of a server, with code, message and data
	kindQuestion  = "question" // of a server, in mid-call
	kindMessage   = "message"  // progress, log messages, what tasks say of themselves, completions
)

// piece is content that hooks look at, all at once.
type piece struct {
	on    string // Arguments or Results
	kind  string
	value mcp.Raw // nil for a call without arguments
	// texts applies an edit to the parts of the value that are content.
	texts func(value mcp.Raw, do edit) mcp.Raw
	// uri is the resource that a call without arguments names.
	uri string
	// fixed says that there is nothing to change.
	fixed bool
}

// action is the effect of a hook; the greater of two counts.
type action uint8

const (
	passed action = iota
	changed
	failedOpen // the hook has not judged, and the operator lets such content pass
	refused
	failed // the hook has not judged, and such content is refused
)

var actions = [...]string{"pass", "change", "fail_open", "refuse", "fail_closed"}

// filter implements the work of a hook.
type filter interface {
	// look judges a piece and returns its value, or another one if it is changed. With refused, why
	// is the reason for the client; with a failure, for the operator.
	look(ctx context.Context, c *mcp.Call, p piece) (out mcp.Raw, did action, why string)
}

// redaction replaces secrets.
type redaction struct {
	finder
	with []byte
}

func (r redaction) look(_ context.Context, _ *mcp.Call, p piece) (mcp.Raw, action, string) {
	if p.uri != "" && r.inURI(p.uri) {
		return nil, refused, "its URI has something that must not pass, and cannot be changed"
	}
	out := p.texts(p.value, func(value mcp.Raw, data bool) mcp.Raw {
		return rewrite(value, data, func(text []byte) []byte { return r.replace(text, r.with) })
	})
	if same(out, p.value) {
		return p.value, passed, ""
	}
	return out, changed, ""
}

// refuse refuses content with secrets.
type refuse struct {
	finder
	reason string
}

func (r refuse) look(_ context.Context, _ *mcp.Call, p piece) (mcp.Raw, action, string) {
	found := p.uri != "" && r.inURI(p.uri)
	p.texts(p.value, func(value mcp.Raw, data bool) mcp.Raw {
		if !found {
			rewrite(value, data, func(text []byte) []byte {
				found = found || r.has(text)
				return nil
			})
		}
		return value
	})
	if found {
		return nil, refused, r.reason
	}
	return p.value, passed, ""
}

func (f finder) inURI(uri string) bool {
	return f.has([]byte(uri)) || f.has([]byte(mcp.Unescape(uri)))
}
