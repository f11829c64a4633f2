package auth

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Results of steps.
const (
	StepGood    = "good"
	StepFailed  = "failed"
	StepSkipped = "not looked at"
)

// Examination says what the gateway thinks of a token, for people. It has no part of the token
// but its claims.
type Examination struct {
	Kind    string     `json:"kind"` // its form
	Good    bool       `json:"good"`
	Status  int        `json:"status,omitempty"` // of HTTP, for a refusal
	Code    string     `json:"error_code,omitempty"`
	Reason  string     `json:"reason,omitempty"` // what the client reads
	Detail  string     `json:"detail,omitempty"` // what did not fit
	Next    string     `json:"next"`
	Steps   []Examined `json:"steps"`
	Says    []Said     `json:"says,omitempty"` // what a JWT says, whether or not that is true
	Endings string     `json:"ends,omitempty"` // when a good one ends
	// Caller is who a good token proves to be.
	Caller *Proven `json:"caller,omitempty"`
}

// Examined is the result of one step.
type Examined struct {
	Step   Step   `json:"step"`
	Result string `json:"result"`
}

// Said is something that a token says.
type Said struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Proven holds what policy knows of a caller.
type Proven struct {
	Issuer string   `json:"issuer"`
	User   string   `json:"user"`
	Client string   `json:"client,omitempty"`
	Groups []string `json:"groups"`
	Scopes []string `json:"scopes"`
	Claims []string `json:"claims,omitempty"` // their names
}

// Examine checks a token as if it came with a request, and says why it is or would be refused. The
// request is to the endpoint of a view, "" for the gateway's own. The code that refuses is that for
// requests, but there is no request: no record or metric counts it, no address becomes suspect by
// it, and it is examined again, whatever was found out about it before. White space around the
// token, Authorization: and its scheme in front do not matter.
func Examine(ctx context.Context, a *Auth, text, view string) (Examination, mcp.Caller) {
	token := pasted(text)
	quiet := *a
	quiet.aside = true
	a = &quiet
	e := Examination{Steps: []Examined{}}
	steps := e.describe(a, token, time.Now())
	if !a.asks {
		e.Reason, e.Next = "nobody is asked for a token in auth.mode none", "Nothing: callers need no token here."
		return e, mcp.Caller{}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.at.Load().places[view].resource, nil)
	if err != nil {
		e.Reason, e.Next = err.Error(), "Correct public_url."
		return e, mcp.Caller{}
	}
	r.Header.Set("Authorization", "Bearer "+token)
	caller, ref := a.authenticate(r, view, mcp.Origin{})
	caller.Token = ""
	failed := Step("")
	if ref != nil {
		known, ok := remedyOf(ref.text)
		if !ok { // it is not even sent as a token
			known = remedy{StepForm, wholeToken}
		}
		failed = known.step
		if failed == StepSignature && !slices.Contains(steps, failed) { // the issuer itself cannot be asked
			failed = StepIssuer
		}
		if failed == StepAudience && strings.HasPrefix(fmt.Sprint(ref.cause), "it is for ") {
			failed = StepEndpoint
		}
		e.Status, e.Code, e.Reason, e.Next = ref.status, ref.name.String(), ref.text, known.next
		if own := slices.Contains(steps, StepRevoked); own && failed == StepAudience { // its issuer needs no setting
			e.Next = getAnother
		}
		if ref.cause != nil {
			e.Detail = printable(ref.cause.Error())
		}
		if failed == StepProof { // asked for last, and only of some tokens
			steps = append(slices.Clone(steps), StepProof)
		}
	} else {
		e.good(caller)
	}
	at := slices.Index(steps, failed)
	for i, step := range steps {
		result := StepGood
		switch {
		case ref != nil && i == at:
			result = StepFailed
		case ref != nil && (at < 0 || i > at):
			result = StepSkipped
		}
		e.Steps = append(e.Steps, Examined{step, result})
	}
	return e, caller
}

// pasted returns the token in a copied text, perhaps a whole header, with its scheme in front.
func pasted(text string) string {
	token := strings.TrimSpace(text)
	for _, lead := range []string{"Authorization:", "Bearer ", "DPoP "} {
		if len(token) > len(lead) && strings.EqualFold(token[:len(lead)], lead) {
			token = strings.TrimSpace(token[len(lead):])
		}
	}
	return token
}

// describe says which form a token has, and returns its steps.
func (e *Examination) describe(a *Auth, token string, now time.Time) []Step {
	if a.asks && a.keyring.has(token) {
		e.Kind = "an API key"
		return keySteps
	}
	switch formOf(token) {
	case formOpaque:
		e.Kind = "an opaque token"
		return opaqueSteps
	case formJWT:
		e.Kind = "a JWT"
		steps := tokenSteps
		if j, ref := splitJWT(token, nil); ref == nil {
			if name, _ := member(j.claims, "iss"); a.local != nil && name == a.local.issuer {
				e.Kind, steps = "an access token of the gateway's own authorization server", ownSteps
			}
			e.say("alg", j.alg)
			e.say("typ", j.typ)
			e.say("kid", j.kid)
			for _, name := range []string{"iss", "aud", "sub", "client_id", "azp", "scope", "scp"} {
				value, _ := j.claims.Member(name)
				e.say(name, string(value))
			}
			for _, name := range []string{"iat", "nbf", "exp"} {
				if at, has, ok := date(j.claims, name); has && ok {
					e.say(name, at.UTC().Format(time.RFC3339)+", "+relative(at, now)+" by the clock of the machine that looks at it")
				}
			}
		}
		return steps
	}
	e.Kind = "no token"
	return tokenSteps
}

func (e *Examination) say(name, value string) {
	if value != "" {
		e.Says = append(e.Says, Said{name, printable(value)})
	}
}

// good records what is known of a caller.
func (e *Examination) good(c mcp.Caller) {
	e.Good, e.Next = true, "Nothing: the token is accepted. What it may do, policy decides: see gatehouse explain."
	e.Caller = &Proven{Issuer: c.Issuer, User: c.Subject, Client: c.ClientID, Groups: append([]string{}, c.Groups...),
		Scopes: append([]string{}, c.Scopes...)}
	c.Claims.Members(func(name []byte, _ mcp.Raw) bool {
		e.Caller.Claims = append(e.Caller.Claims, printable(string(name)))
		return true
	})
	if !c.Expires.IsZero() {
		e.Endings = c.Expires.UTC().Format(time.RFC3339)
	}
}

// relative says how far a time is from now.
func relative(at, now time.Time) string {
	d := at.Sub(now).Round(time.Second)
	if d < 0 {
		return (-d).String() + " ago"
	}
	return "in " + d.String()
}

// printable is a text that may go to a terminal, cut when it is too long. Whatever looks like a
// token or key in it is left out.
func printable(text string) string {
	const most = 300
	words := strings.Fields(text)
	for i, word := range words {
		if bare := strings.Trim(word, `"',:;()[]{}`); apikey.Has(bare) && len(bare) > 20 || strings.HasPrefix(bare, "eyJ") {
			words[i] = "<token>"
		}
	}
	quoted := fmt.Sprintf("%+q", strings.Join(words, " "))
	text = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
