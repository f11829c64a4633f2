package dialect

import (
	"log/slog"
	"slices"
	"strings"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/safelink"
)

// A client talks to one server, the gateway, and shows questions of many servers in its
// name. So each question names its server, in front of the server's own words and of each
// of their lines, and no server can ask under a key of the gateway's own.

// quoteMark precedes what a server says below the first line of a question.
const quoteMark = "> "

// Voice converts the questions of one server for clients.
type Voice struct {
	Upstream string // its name
	// LoopbackLinks says that users may be sent to pages on their own computer.
	LoopbackLinks bool
	Log           *slog.Logger
}

// Put returns the params of a server's question in the form for the client. An elicitation
// says who asks, and contains no URL that users must not be sent to. A sampling request is
// for a model, so no user reads it as a question. The error is for the server.
func (v *Voice) Put(method string, params mcp.Raw) (mcp.Raw, *mcp.Error) {
	if method != mcp.MethodElicit {
		return withoutContext(method, params), nil
	}
	if err := v.check(params); err != nil {
		v.Log.Warn("a question of the upstream is refused", failure.QuestionRefused.Attr(), "cause", err.Message)
		return nil, err
	}
	message := inVoice(v.Upstream, params.At("message").Text())
	return params.Edit(mcp.Edit{Name: "message", Value: mcp.String(message)}), nil
}

// check refuses text that a client could read differently from how it was checked here, and
// URLs that users must not be sent to (2025-11-25 client/elicitation#safe-url-handling).
func (v *Voice) check(params mcp.Raw) *mcp.Error {
	if err := wire.CheckObject(params, "message", "mode", "url"); err != nil {
		return mcp.Errorf(failure.QuestionRefused, "the elicitation can be read in two ways: %s",
			err.(*mcp.Error).Message).WithCode(mcp.CodeInvalidParams)
	}
	mode := params.At("mode")
	url, hasURL := params.Member("url")
	switch {
	case !mode.IsNull() && mode.Text() != "form" && mode.Text() != "url":
		return mcp.Errorf(failure.QuestionRefused,
			"the mode of an elicitation is form or url").WithCode(mcp.CodeInvalidParams)
	case !hasURL && !wire.IsURLMode(params):
		return nil
	}
	if err := safelink.Check(url.Text(), v.LoopbackLinks); err != nil {
		return mcp.Errorf(failure.QuestionRefused, "the user is not sent there: %v", err).WithCode(mcp.CodeInvalidParams)
	}
	return nil
}

// inVoice marks a server's text as that server's question. No line of it begins with the
// server's own words, and no character of it turns, hides or breaks another line.
func inVoice(name, text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029",
		"\n").Replace(text)
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && safelink.Hidden(r) {
			return -1
		}
		return r
	}, text)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRightFunc(line, unicode.IsSpace)
	}
	lines = slices.CompactFunc(lines, func(a, b string) bool { return a == "" && b == "" })
	return name + " asks: " + strings.Join(lines, "\n"+quoteMark)
}

// serverKey is put in front of a stateless server's key that equals one of the gateway's
// own, or that already has this prefix.
const serverKey = "server:"

// PublicKey returns the key for the client of a question that a server asks under key.
// nativeKey is its inverse; ok is false for the gateway's own keys, under which no server
// can ask.
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
