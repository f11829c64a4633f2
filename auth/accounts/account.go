package accounts

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// accountRow is one server on the page of a user's accounts.
type accountRow struct {
	Name, Host  string
	State, Mark string // in words, and its class
	Why         string
	Since, Used string
	At          string // where the user has signed in
	SignedIn    bool
}

type accountsPage struct {
	frame
	Rows            []accountRow
	SignIn, SignOut string
	Notice          string
}

// showAccounts shows a user's accounts at the servers that they may use.
func (a *Accounts) showAccounts(v *visit) {
	page := accountsPage{frame: a.frame(v), SignIn: signInPath, SignOut: signOutPath}
	if v.r.URL.Query().Get("done") == "out" {
		page.Notice = "You are signed out. The server has been told, if it can be."
	}
	var servers []Server
	var names []string
	for _, s := range a.Servers() {
		if a.May(&v.who, s.Name) {
			servers, names = append(servers, s), append(names, s.Name)
		}
	}
	states, err := a.Vault.States(v.r.Context(), vault.OwnerOf(v.who), names)
	if err != nil || len(states) != len(names) {
		a.away(v.w, err)
		return
	}
	for i, state := range states {
		row := accountRow{Name: state.Server, Host: hostOf(servers[i].URL), Since: when(state.Since), Used: when(state.Used),
			Why: state.Why, At: hostOf(state.AuthServer)}
		row.State, row.Mark = shown(state)
		row.SignedIn = !state.Since.IsZero()
		page.Rows = append(page.Rows, row)
	}
	a.pages.Show(v.w, http.StatusOK, "accounts", "", page)
}

// shown describes the state of an account in words.
func shown(s vault.State) (text, mark string) {
	switch {
	case s.State == vault.StateOK && len(s.Wanted) > 0:
		return "Signed in; the server wants more rights", "warning"
	case s.State == vault.StateOK:
		return "Signed in", "good"
	case s.State == vault.StateError:
		return "Signed in, but it does not work now", "warning"
	case s.Since.IsZero():
		return "Not signed in", "quiet"
	}
	return "Sign in again", "warning"
}

// when is a time as people read it, "" for none.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2 January 2006, 15:04 UTC")
}

type signInPage struct {
	frame
	Server, Host, At, To string
	Scopes               []string
}

// openLink serves the page behind a link. Only the user who was asked may open it: otherwise an
// attacker could have a victim sign in for them, or sign in as themselves for a victim.
func (a *Accounts) openLink(w http.ResponseWriter, r *http.Request) {
	text := r.PathValue("ticket")
	const over = "This link is not good any more"
	t, err := a.openTicket(text)
	if err != nil {
		a.say(w, http.StatusNotFound, over,
			"Links are good for ten minutes. Go back to where you got it and try again, or open "+Root+".")
		return
	}
	v, err := a.person(w, r)
	switch {
	case errors.Is(err, signin.ErrNone):
		a.enter(w, r)
		return
	case err != nil:
		a.away(w, err)
		return
	case t.owner() != vault.OwnerOf(v.who): // without naming the owner
		a.Log.Warn("accounts: a link was opened by somebody else than it was made for", failure.SignInFailed.Attr(),
			"upstream", t.Server)
		a.Failed(t.Server, &v.who, errors.New("the link was made for somebody else"))
		a.sayTo(v, http.StatusForbidden, "This link is not for you",
			"It was made for somebody else than the user who is signed in here. If somebody sent it to you, do not go on: they may want to use your account. "+
				"If you asked for it yourself, you are signed in as another user there: sign out of this page, and open the link again.")
		return
	}
	used, err := a.used(r.Context(), t)
	switch {
	case err != nil:
		a.away(w, err)
	case used:
		a.sayTo(v, http.StatusGone, "This link has been used", "A link is good for one sign-in.")
	default:
		a.goOn(v, t.Server, t.ID)
	}
}

// beginHere begins a sign-in from the page of accounts.
func (a *Accounts) beginHere(v *visit) { a.goOn(v, v.r.PostForm.Get("server"), "") }

// goOn shows the user the next page.
func (a *Accounts) goOn(v *visit, name, ticket string) {
	s, ok := a.server(name, &v.who)
	if !ok {
		a.sayTo(v, http.StatusNotFound, "There is no such server",
			"It may have been removed, or you may not use it any more.")
		return
	}
	state, err := a.state(v.r.Context(), vault.OwnerOf(v.who), name)
	if err != nil {
		a.away(v.w, err)
		return
	}
	way, err := a.begin(v.r.Context(), s, vault.OwnerOf(v.who), v.id, ticket, state)
	if err != nil {
		a.trouble(v, name, err)
		return
	}
	a.pages.Show(v.w, http.StatusOK, "sign-in", "",
		signInPage{frame: a.frame(v), Server: name, Host: hostOf(s.URL), At: way.Host, To: way.URL, Scopes: way.Scopes})
}

// trouble says why a sign-in cannot continue.
func (a *Accounts) trouble(v *visit, server string, err error) {
	why := "Something went wrong. The gateway's log has the cause."
	if p, ok := errors.AsType[*Problem](err); ok {
		why = p.Why + "."
	}
	a.Log.Warn("accounts: a user cannot sign in at a server", failure.SignInFailed.Attr(), "upstream", server,
		"error", err)
	a.Failed(server, &v.who, err)
	a.sayTo(v, http.StatusBadGateway, "You are not signed in", why)
}

// comeBack handles the answer of a server's authorization server.
func (a *Accounts) comeBack(v *visit) {
	ctx, who := v.r.Context(), vault.OwnerOf(v.who)
	e, err := a.end(ctx, v.r.PathValue("server"), v.r.URL.Query(), who, v.id,
		func(name string) (Server, bool) { return a.server(name, &v.who) })
	if _, declined := errors.AsType[*declinedError](err); declined && e.ticket != "" {
		_ = a.gaveUp(context.WithoutCancel(ctx), who, e.server, e.ticket) // else the call asks again
	}
	if err != nil {
		a.trouble(v, e.server, err)
		return
	}
	if e.ticket != "" {
		first, err := a.Store.AddOf(ctx, account(who, ""), usedRoom+e.ticket, nil, outcomeLife)
		switch {
		case err != nil:
			a.away(v.w, err)
			return
		case !first:
			a.sayTo(v, http.StatusGone, "This link has been used", "A link is good for one sign-in.")
			return
		}
	}
	if err := a.Vault.Keep(ctx, who, e.server, e.grant); err != nil {
		if e.ticket != "" {
			// the link, for which a call may wait, has led nowhere
			_ = a.Store.Drop(context.WithoutCancel(ctx), usedRoom+e.ticket)
		}
		a.trouble(v, e.server, problem(err, "The gateway could not keep what the server gave. Try again in a minute"))
		return
	}
	a.Changed(e.server, &v.who)
	if err := a.arrived(context.WithoutCancel(ctx), who, e.server); err != nil {
		a.Log.Warn("accounts: calls that wait are not told that their user is done", failure.StoreDown.Attr(), "upstream",
			e.server, "error", err)
	}
	a.Others(context.WithoutCancel(ctx), who, e.server)
	v.w.Header().Set("Cache-Control", "no-store")
	http.Redirect(v.w, v.r, donePath+url.PathEscape(e.server), http.StatusSeeOther)
}

// showDone says that a sign-in is done.
func (a *Accounts) showDone(v *visit) {
	name := v.r.PathValue("server")
	state, err := a.state(v.r.Context(), vault.OwnerOf(v.who), name)
	if _, ok := a.server(name, &v.who); err != nil || !ok || state.State != vault.StateOK {
		http.Redirect(v.w, v.r, Root, http.StatusSeeOther)
		return
	}
	a.pages.Show(v.w, http.StatusOK, "message", "", message{frame: a.frame(v), Title: "You are signed in at " + name,
		Text: "You can close this page and go back. What waited for you goes on by itself.", Back: Root})
}

// signOut forgets a user's account at a server.
func (a *Accounts) signOut(v *visit) {
	name := v.r.PostForm.Get("server")
	who := vault.OwnerOf(v.who)
	if err := a.Vault.Forget(v.r.Context(), who, name); err != nil {
		a.away(v.w, err)
		return
	}
	a.Changed(name, &v.who)
	a.Others(context.WithoutCancel(v.r.Context()), who, name)
	http.Redirect(v.w, v.r, Root+"?done=out", http.StatusSeeOther)
}

// release ends the session of a browser.
func (a *Accounts) release(v *visit) {
	if err := a.People.End(v.r.Context(), v.id); err != nil {
		a.away(v.w, err)
		return
	}
	a.setSession(v.w, "")
	v.w.Header().Set("Clear-Site-Data", `"cache"`)
	http.Redirect(v.w, v.r, leftPath, http.StatusSeeOther)
}

func (a *Accounts) showLeft(w http.ResponseWriter, _ *http.Request) {
	a.pages.Show(w, http.StatusOK, "message", "",
		message{Title: "You are signed out of this page", Text: "Your accounts at servers stay signed in.", Back: Root})
}

// equal compares secrets in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
