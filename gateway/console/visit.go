package console

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// mostForm bounds the body of a form, in bytes: a configuration is the largest one.
const mostForm = 4 << 20

// visit is a request of a visitor, and its answer.
type visit struct {
	c   *Console
	w   http.ResponseWriter
	r   *http.Request
	who Visitor
}

// enter identifies the visitor. It answers a request without one.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) (*visit, bool) {
	w.Header().Set("Cache-Control", "no-store")
	who, err := c.deps.Guard.Who(r)
	v := &visit{c: c, w: w, r: r, who: who}
	switch {
	case err == nil:
		return v, true
	case errors.Is(err, errAway):
		v.problem(http.StatusServiceUnavailable, "Redis does not answer.",
			"The sessions of the console are there, so nobody knows whether you have signed in. Try again, or open "+
				Root+signInPage.path+" to sign in at this replica alone.")
	case !errors.Is(err, errNobody):
		v.problem(http.StatusForbidden, "You may not look at this.", sentence(err.Error()))
	case r.Method == http.MethodGet && !wantsEvents(r):
		http.Redirect(w, r, Root+signInPage.path+"?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
	default:
		v.problem(http.StatusUnauthorized, "You are not signed in any more.", "Sign in again, and repeat what you did.")
	}
	return nil, false
}

// show answers with a page, or with an event stream of its live part.
func (c *Console) show(p page, w http.ResponseWriter, r *http.Request) {
	if p.look == signInPage.look {
		c.signIn(w, r)
		return
	}
	v, ok := c.enter(w, r)
	switch {
	case !ok:
	case !v.Can(p.role) && p.path == "/{$}":
		http.Redirect(w, r, Root+"/approvals", http.StatusSeeOther) // for people who only approve
	case !v.Can(p.role):
		v.forbidden(p.role)
	case wantsEvents(r):
		c.live(p, v)
	default:
		data, err := p.show(v)
		if err != nil {
			v.fail(err)
			return
		}
		v.render(http.StatusOK, p, data)
	}
}

// act runs the action of a form, if a page of this console has sent it.
func (c *Console) act(a action, w http.ResponseWriter, r *http.Request) {
	v, ok := c.enter(w, r)
	if !ok {
		return
	}
	if err := c.sites.Check(r); err != nil {
		v.problem(http.StatusForbidden, "This form is not from the console.",
			"Open the page in the console, and send it from there.")
		return
	}
	if a.role != "" && !v.Can(a.role) {
		v.forbidden(a.role)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	err := r.ParseForm()
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		err = r.ParseMultipartForm(mostForm)
	}
	if err != nil {
		v.problem(http.StatusBadRequest, "The form could not be read.", "A form may have 4 MiB.")
		return
	}
	if err := a.do(v); err != nil {
		v.fail(err)
	}
}

// Can reports whether the visitor has a role. Templates use it, too.
func (v *visit) Can(role string) bool { return v.who.May(role) }

// ask asks as the visitor.
func ask[Q, A any](v *visit, o admin.Operation[Q, A], q Q) (A, error) {
	return o.Ask(v.c.deps.API, v.r, v.who.Operator, q)
}

// refused returns why the visitor was refused, if err is a refusal. With statuses, it is one of these.
func refused(err error, statuses ...int) (why string, ok bool) {
	r, ok := errors.AsType[*admin.Refusal](err)
	if !ok || len(statuses) > 0 && !slices.Contains(statuses, r.Status) {
		return "", false
	}
	return sentence(r.Message), true
}

// form returns a field of the form that was sent, or a parameter of the URL, without space around it.
func (v *visit) form(name string) string { return strings.TrimSpace(v.r.FormValue(name)) }

// redirect ends an action: the page there shows the result. done names a text of notices.
func (v *visit) redirect(to, done string) error {
	if done != "" {
		to += map[bool]string{true: "&", false: "?"}[strings.Contains(to, "?")] + "done=" + done
	}
	http.Redirect(v.w, v.r, Root+to, http.StatusSeeOther)
	return nil
}

// fail answers with the page of an error.
func (v *visit) fail(err error) {
	if refused, ok := errors.AsType[*admin.Refusal](err); ok {
		v.problem(refused.Status, sentence(refused.Message), refused.Code)
		return
	}
	v.c.deps.Log.Error("console", failure.Internal.Attr(), "path", v.r.URL.Path, "error", err)
	v.problem(http.StatusInternalServerError, "Something went wrong.", "The gateway's log has the cause.")
}

func (v *visit) forbidden(role string) {
	v.problem(http.StatusForbidden, "You need the role "+role+" for this.",
		"admin.rules in the gateway's configuration say who has it.")
}

// problemLook is the template of the page about a problem.
const problemLook = "problem"

// problem answers with a page about a problem and what to do.
func (v *visit) problem(status int, what, next string) {
	v.render(status, page{title: what, look: problemLook}, struct{ What, Next string }{what, next})
}

// render answers with a page.
func (v *visit) render(status int, p page, data any) {
	var text bytes.Buffer
	if err := v.c.looks[p.look].page.Execute(&text, v.frame(p, data)); err != nil {
		v.c.deps.Log.Error("console", failure.Internal.Attr(), "page", p.look, "error", err)
		http.Error(v.w, "the page cannot be made: the gateway's log has the cause", http.StatusInternalServerError)
		return
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Accept")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(text.Bytes()) // a browser that has left
}

// frame is the data of the layout.
type frame struct {
	Title  string
	Menu   []entry
	Who    Visitor
	Notice string // what an action has done
	Live   bool
	Visit  *visit
	Data   any

	Version string
}

// entry is a line of the menu.
type entry struct {
	Name, Path string
	Here       bool
}

func (v *visit) frame(p page, data any) frame {
	f := frame{
		Title: p.title, Who: v.who, Notice: notices[v.r.URL.Query().Get("done")], Live: p.fresh > 0 || p.stream != nil,
		Visit: v, Data: data,
		Version: v.c.deps.Version,
	}
	for _, other := range v.c.pages {
		if other.menu != "" && v.Can(other.role) {
			here := other.menu == p.menu || p.menu == "" && other.path != "/{$}" &&
				strings.HasPrefix(v.r.URL.Path, Root+other.path+"/")
			f.Menu = append(f.Menu, entry{other.menu, Root + strings.TrimSuffix(other.path, "{$}"), here})
		}
	}
	return f
}

// notices are the texts of pages after an action.
var notices = map[string]string{
	"ended":    "The session has ended.",
	"approved": "You approved of the call. It goes on.",
	"refused":  "You refused the call. Its caller is told.",
	"saved":    "The text is in the file, and holds.",

	"probed":         "The server was probed, and its lists are fetched again.",
	"probe-failed":   "The probe failed: below is why.",
	"reconnected":    "The server has new connections and sessions. Calls that ran end where they began.",
	"disabled":       "The server is disabled: calls to it are refused.",
	"enabled":        "The server is enabled again.",
	"not-everywhere": "It is done here, but not at all replicas: some do not answer. Do it again when they do.",
	"pins-approved":  "It is approved, written to the lock file, and in force.",
}
