package accounts

import (
	_ "embed" // the templates
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// Root is the page of a user's accounts. All other pages are below it.
const Root = "/account"

const (
	linkPath      = Root + "/sign-in/"   // and a ticket
	signInPath    = Root + "/sign-in"    // a form
	signOutPath   = Root + "/sign-out"   // a form: out of a server
	leavePath     = Root + "/leave"      // a form: out of these pages
	leftPath      = Root + "/left"       // what it leads to
	donePath      = Root + "/signed-in/" // and the name of a server
	enterCallback = Root + "/callback"   // where the gateway's issuer sends browsers back to
	mostForm      = 16 << 10
	mostWhy       = 300 // characters of a text that others have written in part
)

//go:embed pages.html
var templates string

// routes are the pages, and what else belongs to sign-ins.
func (a *Accounts) routes() {
	a.mux.HandleFunc("GET "+Root, a.signedIn(a.showAccounts))
	a.mux.HandleFunc("GET "+linkPath+"{ticket}", a.openLink)
	a.mux.HandleFunc("GET "+donePath+"{server}", a.signedIn(a.showDone))
	a.mux.HandleFunc("GET "+CallbackPath("{server}"), a.signedIn(a.comeBack))
	a.mux.HandleFunc("POST "+signInPath, a.form(a.beginHere))
	a.mux.HandleFunc("POST "+signOutPath, a.form(a.signOut))
	a.mux.HandleFunc("POST "+leavePath, a.form(a.release))
	a.mux.HandleFunc("GET "+leftPath, a.showLeft)
	a.mux.HandleFunc("GET "+enterCallback, a.entered)
	a.mux.HandleFunc("GET "+webpage.StylePath, webpage.Style)
	a.mux.HandleFunc("GET "+DocumentPath("{server}"), a.document)
	a.mux.HandleFunc("/", a.nowhere)
}

// document serves the gateway's client ID metadata document for a server, to all.
func (a *Accounts) document(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("server")
	if !slices.ContainsFunc(a.Servers(), func(s Server) bool { return s.Name == name }) {
		a.nowhere(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(a.Document(name))
}

func (a *Accounts) nowhere(w http.ResponseWriter, _ *http.Request) {
	a.say(w, http.StatusNotFound, "There is no such page", "Open "+Root+" to see your accounts.")
}

// Serves reports whether a path is one of ours.
func Serves(path string) bool {
	return path == Root || strings.HasPrefix(path, Root+"/") || strings.HasPrefix(path, clientsPath) ||
		path == webpage.StylePath
}

// ServeHTTP answers a request of a browser.
func (a *Accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(a.PublicURL, "https:") {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
	a.mux.ServeHTTP(w, r)
}

// visit is a request of a user who has signed in at the pages.
type visit struct {
	w      http.ResponseWriter
	r      *http.Request
	who    mcp.Caller
	id     string // of the session: only this browser knows it
	signed time.Time
}

// frame is what every page shows to a user who has signed in.
type frame struct {
	Who, Leave, Proof string
}

func (a *Accounts) frame(v *visit) frame {
	return frame{Who: v.who.Subject, Leave: leavePath, Proof: a.proof(v.id)}
}

// message is a page that says something, in our own words.
type message struct {
	frame
	Title, Text string
	Back        string // a link to the accounts, "" for none
	Bad         bool
}

// say answers with a page that says what is wrong, and what to do.
func (a *Accounts) say(w http.ResponseWriter, status int, title, text string) {
	a.pages.Show(w, status, "message", "", message{Title: title, Text: text, Bad: true})
}

// sayTo is say for a user who has signed in.
func (a *Accounts) sayTo(v *visit, status int, title, text string) {
	a.pages.Show(v.w, status, "message", "", message{frame: a.frame(v), Title: title, Text: text, Back: Root, Bad: true})
}

// cookieName is the name of a session's cookie. With the prefix __Host-, browsers take it from this
// very host over TLS alone.
const cookieName = "gatehouse-account"

func (a *Accounts) secure() bool { return strings.HasPrefix(a.PublicURL, "https:") }

func (a *Accounts) cookie() string {
	if a.secure() {
		return "__Host-" + cookieName
	}
	return cookieName
}

// session returns the id of the session in a request, "" for none. Two cookies of the name are none:
// one of them is not ours.
func (a *Accounts) session(r *http.Request) string {
	all := r.CookiesNamed(a.cookie())
	if len(all) != 1 {
		return ""
	}
	return all[0].Value
}

// setSession gives a browser the id of its session, or takes it away.
func (a *Accounts) setSession(w http.ResponseWriter, id string) {
	c := &http.Cookie{
		Name: a.cookie(), Value: id, Path: "/", MaxAge: int(signin.Life.Seconds()), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: a.secure(),
	}
	if id == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// person returns who makes a request. The error is signin.ErrNone if they have to sign in.
func (a *Accounts) person(w http.ResponseWriter, r *http.Request) (*visit, error) {
	id := a.session(r)
	p, err := a.People.Who(r.Context(), id)
	if a.OneUser() {
		return a.only(w, r, id, p, err)
	}
	if err != nil {
		return nil, err
	}
	if flow := a.SignIn(); flow == nil || flow.Issuer != p.Caller.Issuer {
		return nil, signin.ErrNone
	}
	return &visit{w: w, r: r, who: p.Caller, id: id, signed: p.Since}, nil
}

// only returns the only user. Their browser gets a session, since forms and answers belong to one.
func (a *Accounts) only(w http.ResponseWriter, r *http.Request, id string, p signin.Person, err error) (*visit, error) {
	if errors.Is(err, signin.ErrNone) || err == nil && p.Caller.Subject != "" {
		p = signin.Person{Since: time.Now()}
		if id, err = a.People.Begin(r.Context(), p.Caller); err == nil {
			a.setSession(w, id)
		}
	}
	if err != nil {
		return nil, err
	}
	return &visit{w: w, r: r, id: id, signed: p.Since}, nil
}

// signedIn serves those who have signed in, and has others sign in first.
func (a *Accounts) signedIn(next func(*visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := a.person(w, r)
		switch {
		case err == nil:
			next(v)
		case !errors.Is(err, signin.ErrNone):
			a.away(w, err)
		case strings.HasPrefix(r.URL.Path, clientsPath): // the answer belongs to a session that has ended
			a.say(w, http.StatusForbidden, "You are not signed in any more", "Go back, and begin again.")
		default:
			a.enter(w, r)
		}
	}
}

func (a *Accounts) away(w http.ResponseWriter, err error) {
	a.Log.Warn("accounts: the store does not answer", failure.StoreDown.Attr(), "error", err)
	a.say(w, http.StatusServiceUnavailable, "This page does not work now",
		"The gateway's store does not answer. Try again in a minute.")
}

// enter sends a browser to sign in at the gateway's issuer.
func (a *Accounts) enter(w http.ResponseWriter, r *http.Request) {
	flow := a.SignIn()
	if flow == nil {
		a.say(w, http.StatusNotFound, "Nobody signs in here",
			"The operator of the gateway has to configure where users sign in.")
		return
	}
	at, err := flow.Begin(w, r, r.URL.EscapedPath())
	if err != nil {
		a.outage.Warn(r.Context(), a.Log, "accounts: nobody can sign in", flow.Issuer, err)
		a.say(w, http.StatusBadGateway, "You cannot sign in now",
			"The place where you sign in does not answer as it should. Try again in a minute.")
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// entered takes the answer of the gateway's issuer.
func (a *Accounts) entered(w http.ResponseWriter, r *http.Request) {
	flow := a.SignIn()
	if flow == nil {
		a.say(w, http.StatusNotFound, "Nobody signs in here",
			"The operator of the gateway has to configure where users sign in.")
		return
	}
	who, to, err := flow.End(w, r)
	if err == nil {
		var id string
		if id, err = a.People.Begin(r.Context(), who); err == nil {
			if old := a.session(r); old != "" {
				_ = a.People.End(r.Context(), old) // it ends by itself otherwise
			}
			a.setSession(w, id)
			w.Header().Set("Cache-Control", "no-store")
			http.Redirect(w, r, within(to), http.StatusSeeOther)
			return
		}
	}
	why := "The place where you sign in does not answer as it should. Try again in a minute."
	if refused, ok := errors.AsType[*signin.RefusedError](err); ok {
		why = webpage.Text(refused.Why, mostWhy) // parts of it may be the issuer's
	} else {
		a.outage.Warn(r.Context(), a.Log, "accounts: a sign-in failed", flow.Issuer, err)
	}
	a.say(w, http.StatusForbidden, "You are not signed in", why)
}

// within returns where to go on these pages, the first one for anything else.
func within(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(to, linkPath) ||
		strings.ContainsAny(to, "\\\r\n\t") || strings.Contains(u.Path, "..") {
		return Root
	}
	return to
}

// proof is a hidden field of forms: only pages that this browser got have it.
func (a *Accounts) proof(session string) string { return a.Key.Name("account form", session) }

// form serves forms that one of our own pages has sent.
func (a *Accounts) form(next func(*visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := a.person(w, r)
		switch {
		case errors.Is(err, signin.ErrNone):
			a.say(w, http.StatusForbidden, "You are not signed in any more", "Open "+Root+" again, and repeat what you did.")
			return
		case err != nil:
			a.away(w, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		if r.ParseForm() != nil || !webpage.SameSite(r) || !equal(r.PostForm.Get("proof"), a.proof(v.id)) {
			a.sayTo(v, http.StatusForbidden, "This form is not from our page", "Open "+Root+", and send it from there.")
			return
		}
		next(v)
	}
}
