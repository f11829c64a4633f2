package grants

import (
	"context"
	"crypto/rand"
	_ "embed" // the pages
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

const (
	// decideFor is how long a user may take to decide on the page.
	decideFor = 10 * time.Minute
	// rememberFor is how long consent is remembered.
	rememberFor = 90 * 24 * time.Hour
	// maxForm bounds the forms that are sent here, in bytes.
	maxForm = 32 << 10
)

//go:embed pages/pages.html
var pageText string

// problem is the data of the page "problem".
type problem struct {
	Text   string
	Back   template.URL // leads to the client; "" for nowhere
	Client string
}

// question is the data of the page "consent".
type question struct {
	Client   string // what it calls itself
	Known    bool   // the configuration names it
	Document string // the host of the document about it; "" for none
	Place    string // where the user is sent back to
	Local    bool   // which is a program on this computer
	User     string
	View     string
	Resource string
	Scopes   []string
	ID       string // of what has begun
}

// begun is a request that waits for consent.
type begun struct {
	Query  string     `json:"query"` // the request
	Caller mcp.Caller `json:"caller"`
	Again  string     `json:"again"`
}

// consent asks the signed-in user whether the client may act for them, unless they have agreed
// before.
func (s *Server) consent(w http.ResponseWriter, r *http.Request, req request, in signin.SignedIn) error {
	b := begun{Query: req.query, Caller: in.Caller, Again: string(in.Refresh)}
	b.Caller.Token = ""
	place, local := clientele.Place(req.redirect)
	if s.cfg.Consent == auth.ConsentRemember && !local && !slices.Contains(req.prompt, "consent") {
		switch _, err := s.deps.State.consents.Get(r.Context(), s.consentName(in.Caller, req)); {
		case err == nil:
			return s.give(w, r, req, b)
		case !errors.Is(err, expiring.ErrNone):
			return err
		}
	}
	id, cookie := rand.Text(), rand.Text()
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := s.deps.State.begun.PutOf(r.Context(), in.Caller.User(), id+cookie, text, decideFor); err != nil {
		return err
	}
	s.setCookie(w, id, cookie, int(decideFor.Seconds()))
	q := question{
		Client: req.client.Name, Known: req.client.Kind == clientele.KindFixed, Place: place, Local: local,
		User: nameOfUser(in.Caller),
		View: s.view(req.resource), Resource: req.resource, Scopes: s.granted(req.scopes, in.Caller), ID: id,
	}
	if u, err := url.Parse(req.client.ID); err == nil && req.client.Kind == clientele.KindDocument {
		q.Document = u.Host
	}
	s.pages.Show(w, http.StatusOK, "consent", req.redirect, q)
	return nil
}

// consentName is the name under which a consent is remembered: for as much as the user was shown.
func (s *Server) consentName(who mcp.Caller, req request) string {
	place, _ := clientele.Place(req.redirect)
	scopes := s.granted(req.scopes, who)
	slices.Sort(scopes)
	return strings.Join(append([]string{who.User(), req.client.ID, place, req.resource}, scopes...), "\n")
}

// nameOfUser returns the user's display name, as far as the provider says.
func nameOfUser(who mcp.Caller) string {
	for _, name := range []string{"preferred_username", "email", "name"} {
		if value, ok := who.Claims.Member(name); ok && value.Text() != "" {
			return value.Text()
		}
	}
	return who.Subject
}

// setCookie ties a page to the browser that was shown it.
func (s *Server) setCookie(w http.ResponseWriter, id, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookie("gatehouse-consent-" + id[:8]), Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteStrictMode,
	})
}

// decide handles the form of the page.
func (s *Server) decide(w http.ResponseWriter, r *http.Request) {
	again := fail(codeInvalidRequest,
		"This form is not from a page that this browser was shown, or too old. Start again at your client; cookies have to be allowed.")
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if !webpage.SameSite(r) || r.ParseForm() != nil {
		s.turnBack(w, r, request{}, again)
		return
	}
	b, err := s.begun(r, r.PostForm.Get("id"))
	if err != nil {
		if errors.Is(err, expiring.ErrNone) {
			err = again
		}
		s.turnBack(w, r, request{}, err)
		return
	}
	s.setCookie(w, r.PostForm.Get("id"), "", -1)
	req, err := s.read(r.Context(), b.Query)
	if err != nil {
		s.turnBack(w, r, req, err)
		return
	}
	e := Event{Name: "consent given", Caller: b.Caller, Client: req.client.ID, Agent: req.client.Name,
		View: s.view(req.resource)}
	if r.PostForm.Get("decision") != "allow" {
		e.Name, e.Reason = "consent refused", "the user does not let the client act for them"
		err := fail(codeAccessDenied, e.Reason)
		s.deps.Metrics.count(stepConsent, err)
		s.deps.Recorded(r.Context(), e)
		s.send(w, r, s.back(req, url.Values{"error": {err.code}, "error_description": {err.text}}))
		return
	}
	s.deps.Metrics.count(stepConsent, nil)
	s.deps.Recorded(r.Context(), e)
	if err := s.remember(r.Context(), b.Caller, req); err != nil {
		s.turnBack(w, r, req, err)
		return
	}
	if err := s.give(w, r, req, b); err != nil {
		s.turnBack(w, r, req, err)
	}
}

// begun returns what waits for this browser's consent, once.
func (s *Server) begun(r *http.Request, id string) (b begun, err error) {
	if len(id) < 8 {
		return b, expiring.ErrNone
	}
	cookie, err := r.Cookie(s.cookie("gatehouse-consent-" + id[:8]))
	if err != nil || cookie.Value == "" {
		return b, expiring.ErrNone
	}
	text, err := s.deps.State.begun.Take(r.Context(), id+cookie.Value)
	if err != nil {
		return b, err
	}
	err = json.Unmarshal(text, &b)
	b.Caller.Token = ""
	b.Caller = mcp.NewCaller(b.Caller)
	return b, err
}

// remember keeps a consent where it may be used again.
func (s *Server) remember(ctx context.Context, who mcp.Caller, req request) error {
	if _, local := clientele.Place(req.redirect); s.cfg.Consent != auth.ConsentRemember || local {
		return nil
	}
	return s.deps.State.consents.PutOf(ctx, who.User(), s.consentName(who, req), []byte("1"), rememberFor)
}

// give sends the browser back to the client with a code.
func (s *Server) give(w http.ResponseWriter, r *http.Request, req request, b begun) error {
	life := s.cfg.RefreshTokenLife
	if b.Again == "" {
		life = min(life, unaskedLife)
	}
	c := code{ID: rand.Text(), Redirect: req.redirect, Challenge: req.challenge, Grant: grant{
		Client: req.client.ID, Resource: req.resource, Scopes: s.granted(req.scopes, b.Caller),
		Provider: b.Caller.Issuer, Subject: b.Caller.Subject, Claims: b.Caller.Claims, Again: b.Again,
		Until: time.Now().Add(life),
	}}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	value := rand.Text() + rand.Text()
	if err := s.deps.State.codes.PutOf(r.Context(), b.Caller.User(), "of:"+value, []byte(nameOf(c.ID)),
		codeKnown); err != nil {
		return err
	}
	if err := s.deps.State.codes.PutOf(r.Context(), b.Caller.User(), "code:"+value, text, codeLife); err != nil {
		return err
	}
	s.send(w, r, s.back(req, url.Values{"code": {value}}))
	return nil
}
