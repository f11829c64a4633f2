package dialect

import (
	"log/slog"
	"strings"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/safelink"
)

// A client talks to one server, the gateway, and shows what many servers ask in its name.
// So each question says who asks, in front of the server's own words and of each of their
// lines, and no server can ask under a key of the gateway's own.

// quoteMark is in front of what a server says below the first line of a question.
const quoteMark = "> "

// Voice puts the questions of one server.
type Voice struct {
	Upstream string // its name
	// LoopbackLinks: users may be sent to pages on their own computer.
	LoopbackLinks bool
	Log           *slog.Logger
}

// Put returns the params of a server's question as the client is asked it: an
// elicitation says who asks and leads to no URL that users must not be sent to. What is
// sampled is for a model, and what it says of itself there is nobody's approval. The
// error is for the server.
func (v *Voice) Put(method string, params mcp.Raw) (mcp.Raw, *mcp.Error) {
	if method != mcp.MethodElicit {
		return withoutContext(method, params), nil
	}
	if err := v.check(params); err != nil {
		v.Log.Warn("a question of the upstream is refused", "cause", err.Message)
		return nil, err
	}
	message := inVoice(v.Upstream, params.At("message").Text())
	return params.Edit(mcp.Edit{Name: "message", Value: mcp.String(message)}), nil
}

// check refuses what could be read otherwise than it was judged here, and URLs
// that users must not be sent to (2025-11-25 client/elicitation#safe-url-handling).
func (v *Voice) check(params mcp.Raw) *mcp.Error {
	if err := wire.CheckObject(params, "message", "mode", "url"); err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "the elicitation can be read in two ways: %s", err.(*mcp.Error).Message)
	}
	mode := params.At("mode")
	url, hasURL := params.Member("url")
	switch {
	case !mode.IsNull() && mode.Text() != "form" && mode.Text() != "url":
		return mcp.Errorf(mcp.CodeInvalidParams, "the mode of an elicitation is form or url")
	case !hasURL && !wire.IsURLMode(params):
		return nil
	}
	if err := safelink.Check(url.Text(), v.LoopbackLinks); err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "the user is not sent there: %v", err)
	}
	return nil
}

// inVoice is what a server says, as its question. No line of it begins with the server's
// own words, and none of them turns, hides or breaks another one.
func inVoice(name, text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && safelink.Hidden(r) {
			return -1
		}
		return r
	}, text)
	var b strings.Builder
	b.WriteString(name + " asks: ")
	blank := false
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line == "" {
			blank = i > 0
			continue
		}
		if blank {
			b.WriteString("\n" + quoteMark)
		}
		if i > 0 {
			b.WriteString("\n" + quoteMark)
		}
		b.WriteString(line)
		blank = false
	}
	return b.String()
}

// serverKey is in front of a key of a stateless server that would be one of the gateway's
// own, or has it already.
const serverKey = "server:"

// PublicKey is the key under which the client is asked what a server asks under key, and
// nativeKey the inverse; ok is false for keys of the gateway's own, which no server asks
// under.
func PublicKey(key string) string {
	if strings.HasPrefix(key, serverKey) || isOwnKey(key) {
		return serverKey + key
	}
	return key
}

func nativeKey(key string) (native string, ok bool) {
	if native, ok = strings.CutPrefix(key, serverKey); ok {
		return native, true
	}
	return key, !isOwnKey(key)
}

func isOwnKey(key string) bool {
	return len(key) >= len(mcp.OwnKey) && strings.EqualFold(key[:len(mcp.OwnKey)], mcp.OwnKey)
}
