package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

var (
	// errNobody is the error for a request without a sign-in that needs one.
	errNobody = errors.New("nobody has signed in")
	// errAway is the error while the session store does not answer.
	errAway = errors.New("the session store does not answer, so nobody knows who has signed in: try again")
)

// Staff knows the roles of people now.
type Staff interface {
	// Console returns the section in force.
	Console() Config
	// Roles returns the roles that a person has by admin.rules.
	Roles(*mcp.Caller) []string
	// SignsIn reports whether a person has signed in at the present issuer.
	SignsIn(*mcp.Caller) bool
	// Approves reports whether a policy rule lets the person approve calls.
	Approves(*mcp.Caller) bool
}

// Guard identifies the visitors of the console.
type Guard struct {
	staff  Staff
	people *signin.Sessions
	url    string
	secure bool // browsers use TLS
}

// NewGuard makes a Guard of people who have signed in. url is that of the console, without path, as
// browsers open it.
func NewGuard(url string, staff Staff, people *signin.Sessions) *Guard {
	return &Guard{staff: staff, people: people, url: url, secure: strings.HasPrefix(url, "https:")}
}

// Visitor is a person who may open the console.
type Visitor struct {
	admin.Operator
	// SignedIn is the time of the sign-in; zero for those who come from the machine itself.
	SignedIn time.Time
}

// Who returns the visitor who makes a request. The error is errNobody if they have to sign in, or
// says why they may not look.
func (g *Guard) Who(r *http.Request) (Visitor, error) {
	cfg := g.staff.Console()
	if id := g.session(r); id != "" && !cfg.SignIn.IsZero() {
		p, err := g.people.Who(r.Context(), id)
		switch {
		case err == nil && g.staff.SignsIn(&p.Caller):
			return g.visitor(p)
		case err != nil && !errors.Is(err, signin.ErrNone):
			return Visitor{}, errAway
		}
	}
	if cfg.Loopback != "" && loopback.SentByAny(r) {
		return Visitor{Operator: admin.Operator{Name: "loopback", Roles: []string{cfg.Loopback}}}, nil
	}
	if cfg.SignIn.IsZero() {
		return Visitor{},
			errors.New("the console is open to this machine alone: open it at 127.0.0.1 or localhost, or configure admin.console.sign_in")
	}
	return Visitor{}, errNobody
}

// visitor returns a person with their present roles.
func (g *Guard) visitor(p signin.Person) (Visitor, error) {
	v := Visitor{Operator: admin.Operator{Name: p.Caller.Subject, Roles: g.staff.Roles(&p.Caller), Caller: &p.Caller},
		SignedIn: p.Since}
	if g.staff.Approves(&p.Caller) {
		v.Person = &p.Caller
	}
	if !v.May(admin.Approvers) {
		return v, fmt.Errorf("%s has signed in, and has no role: admin.rules in the gateway's configuration give one",
			text(p.Caller.Subject, mostShort))
	}
	return v, nil
}

// FlowCookie names the cookie of a sign-in that has begun.
const FlowCookie = "gatehouse-sign-in"

// cookieName is the name of a session's cookie. With the prefix __Host-, browsers take it from this
// very host over TLS alone.
const cookieName = "gatehouse-console"

func (g *Guard) cookie(name string) string {
	if g.secure {
		return "__Host-" + name
	}
	return name
}

// session returns the id of the session in a request, "" for none. Two cookies of the name count as
// none: one of them is foreign.
func (g *Guard) session(r *http.Request) string {
	all := r.CookiesNamed(g.cookie(cookieName))
	if len(all) != 1 {
		return ""
	}
	return all[0].Value
}

// setSession sets the cookie with the id of a session, or removes it.
func (g *Guard) setSession(w http.ResponseWriter, id string) {
	c := &http.Cookie{
		Name: g.cookie(cookieName), Value: id, Path: "/", MaxAge: int(signin.Life.Seconds()), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: g.secure,
	}
	if id == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// alias reports whether a request is for another name of this machine than that in the console's own
// URL. The issuer sends browsers back to that, without the cookies of the other name.
func (g *Guard) alias(r *http.Request) bool {
	return !g.secure && !strings.EqualFold(r.Host, strings.TrimPrefix(g.url, "http://"))
}

// addressed reports whether a request is for the console's own URL, so that other names for this
// address, such as an attacker's, get no answer.
func (g *Guard) addressed(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return strings.EqualFold(r.Host, strings.TrimPrefix(strings.TrimPrefix(g.url, "https://"), "http://")) ||
		loopback.Host(host)
}
