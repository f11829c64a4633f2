package console

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Root is the path of the console.
const Root = "/console"

// Deps are the dependencies of the console.
type Deps struct {
	Guard *Guard
	// Flow returns the present sign-in of people; nil for none.
	Flow func() *signin.Flow
	// SignedIn records that a person signed in, or could not.
	SignedIn func(*http.Request, mcp.Caller, error)
	// API answers the visitors: an *admin.API.
	API interface {
		admin.Asker
		Follow(r *http.Request, who admin.Operator, q admin.LiveQuestion, send func([]admin.Decision, int64) error) error
	}
	// Version is the gateway's.
	Version string
	Log     *slog.Logger
}

// Console serves the pages.
type Console struct {
	deps  Deps
	pages []page
	looks map[string]*look // by the file of the template
	mux   *http.ServeMux
	sites *http.CrossOriginProtection

	outage signin.Outage
}

//go:embed static
var static embed.FS

// policy is the Content-Security-Policy of all pages: everything from this server, nothing inline,
// forms only to this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types gatehouse"

// newConsole makes a console of pages and forms.
func newConsole(deps Deps, pages []page, actions []action) (*Console, error) {
	c := &Console{
		deps:  deps,
		pages: pages,
		mux:   http.NewServeMux(),
		looks: make(map[string]*look),
		sites: http.NewCrossOriginProtection(),
	}
	if deps.Guard.url != "" {
		if err := c.sites.AddTrustedOrigin(strings.TrimSuffix(deps.Guard.url, "/")); err != nil {
			return nil, err
		}
	}
	files, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	c.mux.Handle("GET "+Root+"/static/", http.StripPrefix(Root+"/static/", unchanging(http.FileServerFS(files))))
	c.mux.HandleFunc("GET "+startPath, c.startSignIn)
	c.mux.HandleFunc("GET "+CallbackPath, c.endSignIn)
	for _, p := range append([]page{signInPage}, pages...) {
		if c.looks[p.look], err = newLook(p.look); err != nil {
			return nil, err
		}
		c.mux.HandleFunc("GET "+Root+p.path, func(w http.ResponseWriter, r *http.Request) { c.show(p, w, r) })
	}
	for _, a := range append([]action{{path: "/sign-out", do: signOut}}, actions...) {
		c.mux.HandleFunc("POST "+Root+a.path, func(w http.ResponseWriter, r *http.Request) { c.act(a, w, r) })
	}
	c.mux.HandleFunc(Root+"/", func(w http.ResponseWriter, r *http.Request) {
		v, ok := c.enter(w, r)
		if ok {
			v.problem(http.StatusNotFound, "There is no such page.", "The menu has all pages.")
		}
	})
	c.mux.Handle(Root, http.RedirectHandler(Root+"/", http.StatusMovedPermanently))
	if c.looks[problemLook], err = newLook(problemLook); err != nil {
		return nil, err
	}
	return c, nil
}

// ServeHTTP answers a request of a browser.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
	if c.deps.Guard.secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	c.mux.ServeHTTP(w, r)
}

// unchanging lets browsers keep files: their URLs change with their contents.
func unchanging(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=3600")
		next.ServeHTTP(w, r)
	})
}

// page is a page of the console.
type page struct {
	path  string // below Root, as in a pattern of http.ServeMux
	title string
	menu  string // its name in the menu; "" for none
	look  string // the template in pages/, without .html
	role  string // that is needed
	// show returns the data of the template.
	show func(*visit) (any, error)
	// fresh is the interval at which the part within data-live is made again; 0 for never.
	fresh time.Duration
	// stream sends other events in place of that part; nil for none.
	stream func(context.Context, *visit, *events) error
}

// action is a form that was sent. It ends with a page or a redirect.
type action struct {
	path string // below Root
	role string // that is needed; "" for any
	do   func(*visit) error
}
