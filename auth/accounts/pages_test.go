package accounts

import (
	"context"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// vaultOf is a Vault in memory.
type vaultOf struct {
	mu     sync.Mutex
	grants map[vault.Owner]map[string]vault.Grant
	wanted []string
	away   error // of Keep

	unknown string // of States
}

func (v *vaultOf) Keep(_ context.Context, who vault.Owner, server string, g vault.Grant) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.away != nil {
		return v.away
	}
	if v.grants == nil {
		v.grants = map[vault.Owner]map[string]vault.Grant{}
	}
	if v.grants[who] == nil {
		v.grants[who] = map[string]vault.Grant{}
	}
	v.grants[who][server] = g
	return nil
}

func (v *vaultOf) Forget(_ context.Context, who vault.Owner, server string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.grants[who], server)
	return nil
}

func (v *vaultOf) States(_ context.Context, who vault.Owner, servers []string) (all []vault.State, _ error) {
	for _, server := range servers {
		s := vault.State{Server: server, State: "needs_sign_in", Wanted: v.wanted, Unknown: v.unknown}
		if g := v.of(who, server); g.AccessToken != "" {
			s.State, s.Since, s.AuthServer = vault.StateOK, time.Unix(1e9, 0), g.AuthServer
		}
		all = append(all, s)
	}
	return all, nil
}

func (v *vaultOf) of(who vault.Owner, server string) vault.Grant {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.grants[who][server]
}

// site is the pages of a gateway, an issuer where its users sign in, and a server.
type site struct {
	*Accounts
	remote *mcptest.Accounts
	issuer *mcptest.Issuer
	vault  *vaultOf
	url    string

	mu      sync.Mutex // guards changed
	changed []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{remote: mcptest.NewAccounts(nil), issuer: mcptest.NewIssuer(mcptest.IssuerOptions{}), vault: &vaultOf{}}
	t.Cleanup(s.remote.Close)
	t.Cleanup(s.issuer.Close)
	s.issuer.LetSignIn(nil)
	a, err := auth.New(auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: s.issuer.URL}}},
		auth.Deps{PublicURL: s.issuer.Audience})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	t.Cleanup(gateway.Close)
	s.url = gateway.URL
	key, ended := newKey(t), signin.NewEnded(expiring.Base{})
	servers := []Server{{Name: "crm", URL: s.remote.URL}, {Name: "secret", URL: "https://secret.example.com/mcp"}}
	s.Accounts, err = New(Deps{
		Flow:  Flow{PublicURL: s.url, Store: expiring.New(expiring.Base{}, key, "accounts", 100), Key: key},
		Vault: s.vault, People: signin.NewSessions(expiring.Base{}, key), Log: slog.New(slog.DiscardHandler),
		OneUser: func() bool { return false }, SignIn: func() *signin.Flow {
			return &signin.Flow{
				Issuer: s.issuer.URL, ClientID: "pages", Resource: s.issuer.Audience, Redirect: s.url + enterCallback,
				Cookie: "gatehouse-account-flow", Path: enterCallback, Key: key, Ended: ended, Issuers: a,
			}
		},
		Servers: func() []Server { return servers },
		May:     func(_ *mcp.Caller, server string) bool { return server == "crm" },
		Changed: func(server string, caller *mcp.Caller) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed = append(s.changed, caller.Subject+" "+server)
		},
		Others: func(_ context.Context, who vault.Owner, server string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed = append(s.changed, "others: "+who.User+" "+server)
		},
		Failed: func(string, *mcp.Caller, error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) user(name string) vault.Owner { return vault.Owner{Issuer: s.issuer.URL, User: name} }

// browser is one of a user.
type browser struct {
	*http.Client
	t *testing.T
}

func newBrowser(t *testing.T, user string) browser {
	b := browser{mcptest.NewBrowser(user), t}
	t.Cleanup(b.CloseIdleConnections)
	return b
}

// page is what a browser shows.
type page struct {
	status int
	at     string // its URL
	header http.Header
	text   string
}

func (b browser) shown(answer *http.Response, err error) page {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return page{answer.StatusCode, answer.Request.URL.String(), answer.Header, string(text)}
}

func (b browser) open(at string) page {
	b.t.Helper()
	return b.shown(b.Get(at))
}

// send sends the form of a page that leads to a path, with changes.
func (b browser) send(p page, to string, fields url.Values, change func(*http.Request)) page {
	b.t.Helper()
	proof := regexp.MustCompile(`name="proof" value="([^"]*)"`).FindStringSubmatch(p.text)
	if proof == nil || !strings.Contains(p.text, `action="`+to+`"`) {
		b.t.Fatalf("no form to %s on %s", to, p.text)
	}
	fields.Set("proof", proof[1])
	at, err := url.Parse(p.at)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, at.Scheme+"://"+at.Host+to, strings.NewReader(fields.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if change != nil {
		change(r)
	}
	return b.shown(b.Do(r))
}

// goOn returns where the button of a page leads to.
func (p page) goOn(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`class="button main" href="([^"]*)"`).FindStringSubmatch(p.text)
	if found == nil {
		t.Fatalf("%d: nowhere to go on: %s", p.status, p.text)
	}
	return html.UnescapeString(found[1])
}

func (s *site) link(who vault.Owner) string {
	_, text := s.newTicket(who, "crm", 0)
	return s.url + linkPath + text
}

// TestSignInByLink: the user opens the link, signs in at the gateway and at the server, and what
// waits goes on.
func TestSignInByLink(t *testing.T) {
	s := newSite(t)
	alice := newBrowser(t, "alice")
	link := s.link(s.user("alice"))
	consent := alice.open(link)
	if consent.status != http.StatusOK || !strings.Contains(consent.text, "Sign in at crm") ||
		!strings.Contains(consent.text, hostOf(s.remote.URL)) {
		t.Fatalf("%d %s", consent.status, consent.text)
	}
	if len(s.remote.Authorized()) > 0 {
		t.Error("the user was sent away without being asked")
	}
	done := alice.open(consent.goOn(t))
	if done.status != http.StatusOK || !strings.Contains(done.text, "You are signed in at crm") ||
		strings.Contains(done.at, "code") {
		t.Errorf("%d %s %s", done.status, done.at, done.text)
	}
	if g := s.vault.of(s.user("alice"), "crm"); g.AccessToken == "" || g.URL != s.remote.URL {
		t.Errorf("kept %+v", g)
	}
	s.mu.Lock()
	if !slices.Equal(s.changed, []string{"alice crm", "others: alice crm"}) {
		t.Errorf("changed: %q", s.changed)
	}
	s.mu.Unlock()
	ticket, err := s.openTicket(strings.TrimPrefix(link, s.url+linkPath))
	if became, _ := s.outcome(t.Context(), ticket); err != nil || became != signedIn {
		t.Errorf("outcome %d %v", became, err)
	}
	if again := alice.open(link); again.status != http.StatusGone || !strings.Contains(again.text, "has been used") {
		t.Errorf("the ticket is good twice: %d %s", again.status, again.text)
	}
}

// TestSignInPageOpenedByAnotherUser: nobody but the user who was asked can go on, and nobody learns
// who that is.
func TestSignInPageOpenedByAnotherUser(t *testing.T) {
	s := newSite(t)
	link := s.link(s.user("alice"))
	p := newBrowser(t, "mallory").open(link)
	if p.status != http.StatusForbidden || !strings.Contains(p.text, "not for you") ||
		!strings.Contains(p.text, "and open the link again.</p>") || strings.Contains(p.text, "alice") ||
		strings.Contains(p.text, "crm") {
		t.Errorf("%d %s", p.status, p.text)
	}
	// of the same name at another issuer
	other := s.link(vault.Owner{Issuer: "https://other.example.com", User: "mallory"})
	if p := newBrowser(t, "mallory").open(other); p.status != http.StatusForbidden {
		t.Errorf("%d %s", p.status, p.text)
	}
	if len(s.remote.Paths()) > 0 {
		t.Errorf("the server was asked: %q", s.remote.Paths())
	}
	if p := newBrowser(t, "alice").open(link); p.status != http.StatusOK {
		t.Errorf("the link is not good for its user any more: %d %s", p.status, p.text)
	}
}

// TestAnswerOfAnotherUser: what the authorization server answered to one user is not good for
// another, nor for a browser in which nobody has signed in.
func TestAnswerOfAnotherUser(t *testing.T) {
	s := newSite(t)
	victim, attacker := newBrowser(t, "alice"), newBrowser(t, "mallory")
	attacker.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.Path, clientsPath) {
			return http.ErrUseLastResponse // the attacker keeps the answer for the victim
		}
		return nil
	}
	trap := attacker.open(attacker.open(s.link(s.user("mallory"))).goOn(t)).header.Get("Location")
	if p := victim.open(trap); p.status != http.StatusForbidden {
		t.Errorf("nobody: %d %s", p.status, p.text)
	}
	victim.open(s.url + Root)
	if p := victim.open(trap); p.status == http.StatusOK || s.vault.of(s.user("alice"), "crm").AccessToken != "" {
		t.Errorf("the attacker's account is the victim's: %d %s", p.status, p.text)
	}
	if len(s.remote.Forms()) > 0 {
		t.Error("the code was used")
	}
}

// TestTicketTwice: a link gives one sign-in, although it was opened twice before.
func TestTicketTwice(t *testing.T) {
	s := newSite(t)
	alice := newBrowser(t, "alice")
	link := s.link(s.user("alice"))
	one, other := alice.open(link).goOn(t), alice.open(link).goOn(t)
	if p := alice.open(one); p.status != http.StatusOK {
		t.Fatalf("%d %s", p.status, p.text)
	}
	before := s.vault.of(s.user("alice"), "crm")
	if p := alice.open(other); p.status != http.StatusGone || s.vault.of(s.user("alice"), "crm") != before {
		t.Errorf("%d %s", p.status, p.text)
	}
}

// TestTicketAfterStoreWasAway: a link is not used up by a sign-in that could not be kept.
func TestTicketAfterStoreWasAway(t *testing.T) {
	s := newSite(t)
	alice := newBrowser(t, "alice")
	link := s.link(s.user("alice"))
	s.vault.away = errors.New("the store is away")
	if p := alice.open(alice.open(link).goOn(t)); p.status != http.StatusBadGateway ||
		!strings.Contains(p.text, "Try again in a minute") {
		t.Fatalf("%d %s", p.status, p.text)
	}
	s.vault.away = nil
	if p := alice.open(alice.open(link).goOn(t)); p.status != http.StatusOK ||
		s.vault.of(s.user("alice"), "crm").AccessToken == "" {
		t.Errorf("%d %s", p.status, p.text)
	}
}

// TestRegistrationForgotten: whoever signs in again at an authorization server that does not know the
// gateway any more has it registered anew, once.
func TestRegistrationForgotten(t *testing.T) {
	s := newSite(t)
	alice := newBrowser(t, "alice")
	alice.open(alice.open(s.link(s.user("alice"))).goOn(t))
	s.vault.unknown = s.vault.of(s.user("alice"), "crm").ClientID
	for range 2 {
		if p := alice.open(alice.open(s.link(s.user("alice"))).goOn(t)); p.status != http.StatusOK ||
			len(s.remote.Registered()) != 2 {
			t.Errorf("%d after %d registrations: %s", p.status, len(s.remote.Registered()), p.text)
		}
	}
	if g := s.vault.of(s.user("alice"), "crm"); !g.Registered || g.ClientID == s.vault.unknown {
		t.Errorf("%+v", g)
	}
}

// TestBadTickets: what is not a ticket that is good now leads nowhere.
func TestBadTickets(t *testing.T) {
	s := newSite(t)
	alice := newBrowser(t, "alice")
	_, good := s.newTicket(s.user("alice"), "crm", 0)
	old := s.Key.Seal([]byte(`{"id":"x","iss":"`+s.issuer.URL+`","sub":"alice","srv":"crm","exp":"2020-01-01T00:00:00Z"}`),
		ticketBound)
	_, gone := s.newTicket(s.user("alice"), "gone", 0)
	_, hidden := s.newTicket(s.user("alice"), "secret", 0)
	for name, tt := range map[string]string{
		"made up": "x", "changed": "A" + good, "too old": old, "sealed for something else": s.Key.Seal([]byte(`{}`), "x"),
		"for no server": gone, "for a server that the user may not use": hidden,
	} {
		if p := alice.open(s.url + linkPath + tt); p.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, p.status, p.text)
		}
	}
}

// TestRefusedByUser: a user who says no at the server's authorization server ends what waits.
func TestRefusedByUser(t *testing.T) {
	s := newSite(t)
	s.remote.SetAnswer("error", "access_denied")
	alice := newBrowser(t, "alice")
	link := s.link(s.user("alice"))
	p := alice.open(alice.open(link).goOn(t))
	ticket, _ := s.openTicket(strings.TrimPrefix(link, s.url+linkPath))
	if became, _ := s.outcome(t.Context(), ticket); p.status != http.StatusBadGateway ||
		!strings.Contains(p.text, "access_denied") || became != refused {
		t.Errorf("%d %s: %d", p.status, p.text, became)
	}
}

// TestAccountsPage: the page of accounts, its forms, and their protection.
func TestAccountsPage(t *testing.T) {
	s := newSite(t)
	s.vault.wanted = []string{"more"}
	alice := newBrowser(t, "alice")
	home := alice.open(s.url + Root)
	if home.status != http.StatusOK || !strings.Contains(home.text, "<h2>crm</h2>") ||
		strings.Contains(home.text, "secret") || !strings.Contains(home.text, "Not signed in") ||
		!strings.Contains(home.text, "Signed in as <strong>alice") {
		t.Fatalf("%d %s", home.status, home.text)
	}
	policy := home.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") ||
		strings.Contains(home.text, "<script") || strings.Contains(home.text, "style=") {
		t.Errorf("policy %q", policy)
	}
	fields := url.Values{"server": {"crm"}}
	for name, attack := range map[string]func(*http.Request){
		"another site":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a sister site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"no proof":      func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("server=crm")), 10 },
	} {
		if p := alice.send(home, signInPath, fields, attack); p.status != http.StatusForbidden {
			t.Errorf("a form of %s: %d", name, p.status)
		}
	}
	if p := alice.send(home, signInPath, url.Values{"server": {"secret"}}, nil); p.status != http.StatusNotFound {
		t.Errorf("a server that the user may not use: %d", p.status)
	}
	alice.open(alice.send(home, signInPath, fields, nil).goOn(t))
	if got := s.remote.Authorized()[0].Get("scope"); got != "read more" {
		t.Errorf("scopes %q", got)
	}
	home = alice.open(s.url + Root)
	if !strings.Contains(home.text, "Signed in; the server wants more rights") ||
		!strings.Contains(home.text, "9 September 2001, 01:46 UTC") {
		t.Errorf("after signing in: %s", home.text)
	}
	home = alice.send(home, signOutPath, fields, nil)
	if !strings.Contains(home.text, "You are signed out.") || s.vault.of(s.user("alice"), "crm").AccessToken != "" {
		t.Errorf("after signing out: %s", home.text)
	}
	left := alice.send(home, leavePath, url.Values{}, nil)
	if !strings.Contains(left.text, "signed out of this page") || strings.Contains(left.text, "alice") {
		t.Errorf("after leaving: %s", left.text)
	}
	if p := alice.send(home, signInPath, fields, nil); p.status != http.StatusForbidden {
		t.Errorf("a form after leaving: %d", p.status)
	}
}

// TestProblemOnPage: the user reads what is the matter, and nothing that the server wrote.
func TestProblemOnPage(t *testing.T) {
	s := newSite(t)
	s.remote.SetResource("resource", "https://canary.example.com")
	alice := newBrowser(t, "alice")
	if p := alice.open(s.link(s.user("alice"))); p.status != http.StatusBadGateway ||
		!strings.Contains(p.text, "describes itself as another server") || strings.Contains(p.text, "canary") {
		t.Errorf("%d %s", p.status, p.text)
	}
}

// TestOthers: the client's document and the style are for everybody, other paths for nobody.
func TestOthers(t *testing.T) {
	s := newSite(t)
	nobody := newBrowser(t, "")
	if p := nobody.open(s.url + DocumentPath("crm")); p.status != http.StatusOK ||
		p.header.Get("Content-Type") != "application/json" || !strings.Contains(p.text, s.url+CallbackPath("crm")) {
		t.Errorf("%d %s", p.status, p.text)
	}
	if p := nobody.open(s.url + DocumentPath("nothing")); p.status != http.StatusNotFound {
		t.Errorf("%d %s", p.status, p.text)
	}
	if p := nobody.open(s.url + Root + "/x"); p.status != http.StatusNotFound {
		t.Errorf("%d", p.status)
	}
	for to, want := range map[string]string{
		linkPath + "abc": linkPath + "abc", Root: Root, "https://evil.example.com": Root,
		"//evil.example.com" + linkPath: Root,
		linkPath + "../../x":            Root, linkPath + "a\\b": Root, leavePath: Root,
	} {
		if got := within(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}
