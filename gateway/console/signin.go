package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// CallbackPath is the path to which the issuer sends browsers back.
const CallbackPath = Root + "/sign-in/callback"

const startPath = Root + "/sign-in/start"

// signInPage is the page for people who have to sign in.
var signInPage = page{path: "/sign-in", title: "Sign in", look: "signin"}

type signInData struct {
	Issuer, Start string
	Why           string // the last attempt failed; "" for none
}

// signIn shows how to sign in.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	v := &visit{c: c, w: w, r: r}
	w.Header().Set("Cache-Control", "no-store")
	flow := c.deps.Flow()
	if flow == nil {
		v.problem(http.StatusNotFound, "Nobody signs in here.",
			"admin.console.sign_in in the gateway's configuration says where people sign in.")
		return
	}
	start := startPath + "?" + url.Values{"to": {within(r.URL.Query().Get("to"))}}.Encode()
	v.render(http.StatusOK, signInPage, signInData{Issuer: flow.Issuer, Start: start})
}

// startSignIn sends the browser to the issuer.
func (c *Console) startSignIn(w http.ResponseWriter, r *http.Request) {
	v := &visit{c: c, w: w, r: r}
	w.Header().Set("Cache-Control", "no-store")
	flow := c.deps.Flow()
	if flow == nil || !c.deps.Guard.addressed(r) {
		v.problem(http.StatusNotFound, "Nobody signs in here.",
			"Open the console by its own URL: admin.url in the gateway's configuration.")
		return
	}
	to := within(r.URL.Query().Get("to"))
	if c.deps.Guard.alias(r) {
		http.Redirect(w, r, c.deps.Guard.url+startPath+"?"+url.Values{"to": {to}}.Encode(), http.StatusSeeOther)
		return
	}
	at, err := flow.Begin(w, r, to)
	if err != nil {
		c.outage.Warn(r.Context(), c.deps.Log, "console: nobody can sign in", flow.Issuer, err)
		v.problem(http.StatusBadGateway, "The issuer does not answer as it should.",
			"Try again. The gateway's log has the cause.")
		return
	}
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// endSignIn handles the answer of the issuer.
func (c *Console) endSignIn(w http.ResponseWriter, r *http.Request) {
	v := &visit{c: c, w: w, r: r}
	w.Header().Set("Cache-Control", "no-store")
	flow := c.deps.Flow()
	if flow == nil {
		v.problem(http.StatusNotFound, "Nobody signs in here.", "")
		return
	}
	who, to, err := flow.End(w, r)
	if err == nil { // else any user of the issuer takes the place of operators
		if _, none := c.deps.Guard.visitor(signin.Person{Caller: who}); none != nil {
			err = &signin.RefusedError{Why: sentence(none.Error())}
		}
	}
	if err == nil {
		var id string
		if id, err = c.deps.Guard.people.Begin(r.Context(), who); err == nil {
			c.endOld(r) // the earlier sign-in in this browser
			c.deps.Guard.setSession(w, id)
			c.deps.SignedIn(r, who, nil)
			http.Redirect(w, r, within(to), http.StatusSeeOther)
			return
		}
	}
	c.deps.SignedIn(r, who, err)
	refused, ok := errors.AsType[*signin.RefusedError](err)
	if !ok {
		c.outage.Warn(r.Context(), c.deps.Log, "console: a sign-in failed", flow.Issuer, err)
		refused = &signin.RefusedError{Why: "The issuer does not answer as it should. The gateway's log has the cause."}
	}
	v.render(http.StatusForbidden, signInPage, signInData{Issuer: flow.Issuer, Start: startPath, Why: refused.Why})
}

// signOut ends the visitor's session.
func signOut(v *visit) error {
	v.c.endOld(v.r)
	v.c.deps.Guard.setSession(v.w, "")
	v.w.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	return v.redirect(signInPage.path, "")
}

func (c *Console) endOld(r *http.Request) {
	if id := c.deps.Guard.session(r); id != "" {
		if err := c.deps.Guard.people.End(r.Context(), id); err != nil {
			c.deps.Log.Warn("console: a session of a browser may go on until it is over", failure.StoreDown.Attr(), "error", err)
		}
	}
}

// within returns a path within the console, the first page for anything else.
func within(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(to, Root+"/") ||
		strings.ContainsAny(to, "\\\r\n\t") ||
		strings.HasPrefix(u.Path, Root+signInPage.path) || strings.Contains(u.Path, "..") {
		return Root + "/"
	}
	return to
}
