package signin_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

const redirect = "https://console.example.com/callback"

// world is an issuer, a flow there, and what the issuer gives for a code.
type world struct {
	*signin.Flow
	issuer *mcptest.Issuer

	mu        sync.Mutex // guards the fields below
	challenge string     // of the authorization request
	code      string     // that is good, once
	claims    map[string]any
	forms     []url.Values // of requests for tokens
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{issuer: mcptest.NewIssuer(mcptest.IssuerOptions{})}
	t.Cleanup(w.issuer.Close)
	w.issuer.SetMetadata("authorization_endpoint", w.issuer.URL+"/authorize")
	w.issuer.SetMetadata("token_endpoint", w.issuer.URL+"/token")
	w.issuer.SetMetadata("authorization_response_iss_parameter_supported", true)
	w.issuer.Handle("/token", w.token)
	a, err := auth.New(auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: w.issuer.URL}}},
		auth.Deps{PublicURL: w.issuer.Audience})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	w.Flow = &signin.Flow{
		Issuer: w.issuer.URL, ClientID: "console", ClientSecret: "s3cret", Scopes: []string{"mcp"},
		Resource: w.issuer.Audience,
		Redirect: redirect, Cookie: "flow", Path: "/callback", Key: newKey(t), Ended: signin.NewEnded(expiring.Base{}),
		Issuers: a,
	}
	return w
}

func newKey(t *testing.T) *seal.Key {
	t.Helper()
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// token is the token endpoint.
func (w *world) token(rw http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forms = append(w.forms, r.PostForm)
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	id, secret, _ := r.BasicAuth()
	rw.Header().Set("Content-Type", "application/json")
	if w.code == "" || r.PostForm.Get("code") != w.code || base64.RawURLEncoding.EncodeToString(sum[:]) != w.challenge ||
		id != "console" || secret != "s3cret" {
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = rw.Write([]byte(`{"error":"invalid_grant","error_description":"canary-in-an-error"}`))
		return
	}
	w.code = ""
	_ = json.NewEncoder(rw).Encode(map[string]any{"access_token": w.issuer.Token(w.claims), "token_type": "Bearer",
		"expires_in": 300})
}

// begin begins a sign-in. It returns the cookie and the authorization request.
func (w *world) begin(t *testing.T) (*http.Cookie, url.Values) {
	t.Helper()
	rw := httptest.NewRecorder()
	at, err := w.Begin(rw, httptest.NewRequest(http.MethodGet, "/start", nil), "/console/calls")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	cookies := rw.Result().Cookies()
	if err != nil || len(cookies) != 1 || !strings.HasPrefix(at, w.issuer.URL+"/authorize?") {
		t.Fatalf("%s %v %v", at, err, cookies)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.challenge, w.code = u.Query().Get("code_challenge"), "good-code"
	return cookies[0], u.Query()
}

// end ends a sign-in with the answer of an issuer.
func (w *world) end(cookie *http.Cookie, answer url.Values) (mcp.Caller, string, error) {
	r := httptest.NewRequest(http.MethodGet, redirect+"?"+answer.Encode(), nil)
	if cookie != nil {
		r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
	return w.End(httptest.NewRecorder(), r)
}

func (w *world) good(asked url.Values) url.Values {
	return url.Values{"code": {"good-code"}, "state": {asked.Get("state")}, "iss": {w.issuer.URL}}
}

// TestSignIn: whoever signs in is the caller that their token would be at the endpoint.
func TestSignIn(t *testing.T) {
	w := newWorld(t)
	w.claims = map[string]any{"groups": []string{"platform"}}
	cookie, asked := w.begin(t)
	if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie %+v", cookie)
	}
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "console", "redirect_uri": redirect, "scope": "mcp",
		"code_challenge_method": "S256", "resource": w.issuer.Audience,
	} {
		if asked.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, asked.Get(name), want)
		}
	}
	who, to, err := w.end(cookie, w.good(asked))
	if err != nil || to != "/console/calls" || who.Subject != "alice" || who.Issuer != w.issuer.URL ||
		len(who.Groups) != 1 || who.Token != "" {
		t.Fatalf("%+v %q %v", who, to, err)
	}
	if got := w.forms[0].Get("resource"); got != w.issuer.Audience {
		t.Errorf("resource %q", got)
	}
}

// TestRefused: what an attacker can put into the browser of somebody else, or an issuer may answer,
// signs nobody in.
func TestRefused(t *testing.T) {
	for name, attack := range map[string]func(w *world, cookie *http.Cookie, answer url.Values) (*http.Cookie, url.Values){
		"another browser (login CSRF)": func(_ *world, _ *http.Cookie, a url.Values) (*http.Cookie,
			url.Values) {
			return nil, a
		},
		"a state of another sign-in": func(_ *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) {
			a.Set("state", "other")
			return c, a
		},
		"no state": func(_ *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) { a.Del("state"); return c, a },
		"a changed cookie": func(_ *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) {
			other := "A"
			if strings.HasPrefix(c.Value, other) {
				other = "B"
			}
			c.Value = other + c.Value[1:]
			return c, a
		},
		"another issuer (mix-up)": func(_ *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) {
			a.Set("iss", "https://evil.example.com")
			return c, a
		},
		"no issuer where it names itself": func(_ *world, c *http.Cookie, a url.Values) (*http.Cookie,
			url.Values) {
			a.Del("iss")
			return c, a
		},
		"two codes": func(_ *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) {
			a.Add("code", "x")
			return c, a
		},
		"no code": func(_ *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) { a.Del("code"); return c, a },
		"an injected code": func(_ *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) {
			a.Set("code", "stolen")
			return c, a
		},
		"an error of the issuer": func(_ *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) {
			a.Set("error", "access_denied")
			a.Set("error_description", strings.Repeat("long ", 5000)) // which anybody can send
			return c, a
		},
		"a token for somebody else": func(w *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) {
			w.claims = map[string]any{"aud": "https://other.example.com"}
			return c, a
		},
		"a token of the wrong type (ID token)": func(w *world, c *http.Cookie, a url.Values) (*http.Cookie, url.Values) {
			w.claims = map[string]any{"nonce": "n", "aud": "console"}
			return c, a
		},
	} {
		w := newWorld(t)
		cookie, asked := w.begin(t)
		who, _, err := w.end(attack(w, cookie, w.good(asked)))
		if err == nil || who.Subject != "" {
			t.Errorf("%s: signed in as %+v", name, who)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the answer of the issuer is in the error: %v", name, err)
		}
	}
}

// TestMadeUpCodes: who has begun a sign-in can have the issuer asked for one code, and none in another's
// name; a code that the issuer does not know is no fault of the issuer.
func TestMadeUpCodes(t *testing.T) {
	w := newWorld(t)
	cookie, asked := w.begin(t)
	answer := w.good(asked)
	for i, code := range []string{"made-up-1", "made-up-2", "good-code"} {
		answer.Set("code", code)
		_, _, err := w.end(cookie, answer)
		if _, refused := errors.AsType[*signin.RefusedError](err); !refused {
			t.Errorf("%s: %v", code, err)
		}
		if len(w.forms) != 1 || i == 0 && !strings.Contains(err.Error(), "does not know the code") {
			t.Errorf("%s: %v, and the issuer was asked %d times", code, err, len(w.forms))
		}
	}
}

// TestManyMadeUpCodes: whoever begins one sign-in after the other, and makes up a code for each, has the
// issuer asked about one at a time after the first ones, and keeps nobody waiting elsewhere. Where
// somebody has signed in, nobody has to wait: many people may share the address.
func TestManyMadeUpCodes(t *testing.T) {
	t.Run("direct", func(t *testing.T) {
		checkManyMadeUpCodes(t, func(r *http.Request, remote string) *http.Request {
			r.RemoteAddr = remote
			return r
		})
	})
	t.Run("a proxy names them", func(t *testing.T) {
		checkManyMadeUpCodes(t, func(r *http.Request, remote string) *http.Request {
			r.RemoteAddr = "10.0.0.1:1"
			from := mcp.Origin{Address: netip.MustParseAddrPort(remote).Addr().String()}
			return r.WithContext(mcp.WithOrigin(r.Context(), from))
		})
	})
}

func checkManyMadeUpCodes(t *testing.T, comes func(r *http.Request, remote string) *http.Request) {
	w := newWorld(t)
	w.claims = map[string]any{}
	var asked atomic.Int64
	arrived, goOn := make(chan struct{}, 100), make(chan struct{})
	w.issuer.Handle("/token", func(rw http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.PostFormValue("code") == "made-up" {
			arrived <- struct{}{}
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
		w.token(rw, r)
	})
	// from ends a sign-in of a new browser at an address.
	from := func(ctx context.Context, remote, code string) error {
		cookie, query := w.begin(t)
		answer := w.good(query)
		answer.Set("code", code)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, redirect+"?"+answer.Encode(), nil)
		r.AddCookie(cookie)
		_, _, err := w.End(httptest.NewRecorder(), comes(r, remote))
		return err
	}
	var all sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	flood := func(remote string, n int) {
		for range n {
			all.Go(func() { _ = from(ctx, remote, "made-up") })
		}
		for range n {
			<-arrived
		}
	}
	flood("203.0.113.9:1", 20) // these are asked at once, and still run
	flood("[2001:db8::1]:1", 20)
	flood("203.0.113.9:2", 1) // which has the turn of all suspects
	for _, remote := range []string{"203.0.113.9:3", "[2001:db8::2]:1"} {
		short, end := context.WithCancel(t.Context())
		end()
		before := asked.Load()
		_, refused := errors.AsType[*signin.RefusedError](from(short, remote, "made-up"))
		if !refused || asked.Load() != before {
			t.Errorf("%s: refused %t, and the issuer was asked %d times more", remote, refused, asked.Load()-before)
		}
	}
	if err := from(t.Context(), "198.51.100.7:1", "good-code"); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
	flood("198.51.100.7:2", 30) // nobody waits there
	close(goOn)
	all.Wait()
	leave()
}

// TestOutage: whoever begins sign-ins while the issuer is away does not fill the log.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		var outage signin.Outage
		log := slog.New(slog.NewTextHandler(&text, nil))
		for range 5 {
			outage.Warn(t.Context(), log, "nobody can sign in", "https://i.example.com", errors.New("HTTP 503"))
		}
		time.Sleep(time.Minute)
		outage.Warn(t.Context(), log, "nobody can sign in", "https://i.example.com", errors.New("HTTP 503"))
		if got := text.String(); strings.Count(got, "nobody can sign in") != 2 || !strings.Contains(got, "GH-ISSUER-DOWN") ||
			!strings.HasSuffix(got, "more=4\n") {
			t.Errorf("%s", got)
		}
	})
}

// TestTwice: a code is good once, and a sign-in is over after ten minutes.
func TestTwice(t *testing.T) {
	w := newWorld(t)
	cookie, asked := w.begin(t)
	if _, _, err := w.end(cookie, w.good(asked)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.end(cookie, w.good(asked)); err == nil {
		t.Error("the same answer signed somebody in twice")
	}
}

// TestSessions: sessions end after a time, after one without requests, and at once by signing out.
func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := signin.NewSessions(expiring.Base{}, newKey(t))
		begin := func() string {
			id, err := s.Begin(t.Context(), mcp.Caller{Issuer: "https://i", Subject: "alice", Claims: mcp.Raw(`{"a":1}`),
				Token: "canary"})
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		is := func(id string, want error) {
			t.Helper()
			if p, err := s.Who(t.Context(), id); !errors.Is(err, want) ||
				err == nil && (p.Caller.Subject != "alice" || p.Caller.Token != "") {
				t.Errorf("%+v %v, want %v", p, err, want)
			}
		}
		used, idle, out := begin(), begin(), begin()
		for range 8 {
			<-time.After(signin.Idle - time.Minute)
			is(used, nil)
		}
		is(idle, signin.ErrNone)
		<-time.After(signin.Idle - time.Minute)
		is(used, signin.ErrNone)
		if err := s.End(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		is(out, signin.ErrNone)
		is("made-up", signin.ErrNone)
	})
}

// TestSessionsBound: further sign-ins of a person end their own oldest session, and nobody else's.
func TestSessionsBound(t *testing.T) {
	s := signin.NewSessions(expiring.Base{}, newKey(t))
	begin := func(name string) string {
		id, err := s.Begin(t.Context(), mcp.Caller{Subject: name})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	operator := begin("alice")
	var ids []string
	for range 1050 {
		ids = append(ids, begin("mallory"))
	}
	if _, err := s.Who(t.Context(), operator); err != nil {
		t.Errorf("the session of somebody else: %v", err)
	}
	if _, err := s.Who(t.Context(), ids[0]); !errors.Is(err, signin.ErrNone) {
		t.Errorf("the oldest session: %v", err)
	}
	if _, err := s.Who(t.Context(), ids[len(ids)-1]); err != nil {
		t.Errorf("the newest session: %v", err)
	}
}

// TestOfflineAlone: whoever asks for nothing but a refresh token asks for what that needs, too.
func TestOfflineAlone(t *testing.T) {
	for want, scopes := range map[string][]string{"mcp offline_access": {"mcp"}, "openid offline_access": nil} {
		w := newWorld(t)
		w.issuer.SetMetadata("scopes_supported", []string{"openid", "offline_access"})
		w.Scopes, w.Offline = scopes, true
		if _, asked := w.begin(t); asked.Get("scope") != want {
			t.Errorf("%q: %q", want, asked.Get("scope"))
		}
	}
}

// TestBesideRedis: while Redis does not answer, people sign in at one replica alone.
func TestBesideRedis(t *testing.T) {
	w := newWorld(t)
	server := redistest.Start(t)
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(server.URL())}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	server.Kill()
	w.Ended = signin.NewEnded(expiring.Base{Redis: db})
	cookie, asked := w.begin(t)
	who, _, err := w.end(cookie, w.good(asked))
	if err != nil {
		t.Fatalf("%+v %v", who, err)
	}
	if _, _, err := w.end(cookie, w.good(asked)); err == nil {
		t.Error("a sign-in ends twice")
	}
	s := signin.NewSessions(expiring.Base{Redis: db}, newKey(t))
	id, err := s.Begin(t.Context(), who)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.Who(t.Context(), id); err != nil || p.Caller.Subject != who.Subject {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := s.Who(t.Context(), "of-before"); err == nil || errors.Is(err, signin.ErrNone) {
		t.Errorf("a session in Redis: %v", err)
	}
	if err := s.End(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, err := s.Who(t.Context(), id); !errors.Is(err, signin.ErrNone) {
		t.Errorf("after the end: %v", err)
	}
}

// TestRedisSessions: with Redis, any replica knows who has signed in, and what stands there is
// sealed.
func TestRedisSessions(t *testing.T) {
	server := redistest.Start(t)
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(server.URL())}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	key := newKey(t)
	one, other, stranger := signin.NewSessions(expiring.Base{Redis: db}, key),
		signin.NewSessions(expiring.Base{Redis: db}, key), signin.NewSessions(expiring.Base{Redis: db}, newKey(t))
	id, err := one.Begin(t.Context(), mcp.Caller{Issuer: "https://i", Subject: "alice", Groups: []string{"canary-group"},
		Token: "canary"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := other.Who(t.Context(), id)
	if err != nil || p.Caller.Subject != "alice" || p.Caller.Token != "" || p.Caller.User() == "" {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := stranger.Who(t.Context(), id); !errors.Is(err, signin.ErrNone) {
		t.Errorf("with another key: %v", err)
	}
	if err := other.End(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Who(t.Context(), id); !errors.Is(err, signin.ErrNone) {
		t.Errorf("after signing out at another replica: %v", err)
	}
}
