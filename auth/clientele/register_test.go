package clientele

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func registering(redirects ...string) Config {
	return Config{Registration: Registration{DCR: DCR{Enabled: true, Redirects: redirects}}}
}

// post sends a registration from an address.
func post(r *Registry, from, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "/oauth/register", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req = req.WithContext(mcp.WithOrigin(req.Context(), mcp.Origin{Address: from}))
	w := httptest.NewRecorder()
	r.ServeRegister(w, req)
	return w
}

const here = "192.0.2.1"

// answer is what a registration endpoint says.
type answer struct {
	ID      string   `json:"client_id"`
	Secret  string   `json:"client_secret"`
	Ends    int64    `json:"client_secret_expires_at"`
	Issued  int64    `json:"client_id_issued_at"`
	Name    string   `json:"client_name"`
	URI     string   `json:"client_uri"`
	URIs    []string `json:"redirect_uris"`
	Method  string   `json:"token_endpoint_auth_method"`
	Grants  []string `json:"grant_types"`
	Error   string   `json:"error"`
	Because string   `json:"error_description"`
}

func answerOf(t *testing.T, w *httptest.ResponseRecorder) (a answer) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	return a
}

func TestRegister(t *testing.T) {
	r := newRegistry(t, registering("www.cursor.com", "cursor:"), nil)
	w := post(r, here, `{"client_name":"Cursor\u202e","client_uri":"https://cursor.com","redirect_uris":["cursor://anysphere.cursor-mcp/oauth/callback",
		"https://www.cursor.com/agents/mcp/oauth/callback","http://localhost:8787/callback"],"grant_types":["authorization_code","refresh_token","urn:x"],
		"response_types":["code"],"token_endpoint_auth_method":"none","application_type":"native","unknown":{"x":[1]}}`)
	a := answerOf(t, w)
	if w.Code != http.StatusCreated || a.Secret != "" || a.Method != MethodNone || a.Name != "Cursor\uFFFD" ||
		a.URI != "https://cursor.com" || len(a.URIs) != 3 || a.Issued == 0 ||
		!slices.Equal(a.Grants, []string{"authorization_code", "refresh_token"}) || len(a.ID) > 500 {
		t.Fatalf("%d %+v", w.Code, a)
	}
	if h := w.Header(); h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "*" ||
		h.Get("Content-Type") != "application/json" {
		t.Errorf("headers: %v", h)
	}
	replica := newRegistry(t, registering("www.cursor.com", "cursor:"), nil)
	c, err := replica.Find(t.Context(), a.ID)
	if err != nil || c.ID != a.ID || c.Kind != KindRegistered || c.Name != a.Name || c.URI != a.URI || !c.Public() ||
		!c.Allows("http://localhost:9999/callback") || c.Allows("cursor://evil/oauth/callback") || c.Knows("") {
		t.Errorf("another replica: %+v, %v", c, err)
	}
	if !r.Registers() {
		t.Error("the metadata do not say so")
	}
	if short := ShortID(a.ID); len(short) != len(registeredPrefix)+24 || short != ShortID(a.ID) ||
		ShortID("web") != "web" || short == ShortID(a.ID+"x") {
		t.Errorf("in tokens it is %q", short)
	}
	unnamed := answerOf(t, post(r, here, `{"redirect_uris":["http://127.0.0.1/"],"token_endpoint_auth_method":"none"}`))
	if c, err := r.Find(t.Context(), unnamed.ID); err != nil || c.Name != "127.0.0.1" {
		t.Errorf("without a name: %+v, %v", c, err)
	}
}

// TestRegisterSecret: a confidential client gets a secret of its own, which stands nowhere else.
func TestRegisterSecret(t *testing.T) {
	r := newRegistry(t, registering("chat.example.com"), nil)
	const body = `{"redirect_uris":["https://chat.example.com/cb"]%s}`
	var secrets []string
	for _, tt := range []struct{ more, method string }{
		{"", MethodBasic}, {`,"token_endpoint_auth_method":"client_secret_post"`, MethodPost},
		{`,"token_endpoint_auth_method":"client_secret_basic"`, MethodBasic},
	} {
		a := answerOf(t, post(r, here, fmt.Sprintf(body, tt.more)))
		c, err := r.Find(t.Context(), a.ID)
		if err != nil || a.Method != tt.method || c.Method != tt.method || c.Public() || len(a.Secret) < 32 ||
			a.Ends <= a.Issued || !c.Knows(a.Secret) || c.Knows(a.Secret+"x") || c.Knows("") {
			t.Errorf("%s: %+v, %+v, %v", tt.more, a, c, err)
		}
		if strings.Contains(fmt.Sprintf("%+v", c), a.Secret) || slices.Contains(secrets, a.Secret) {
			t.Error("the secret is not secret")
		}
		secrets = append(secrets, a.Secret)
	}
}

// TestRegisterRefused: what is refused, and the word for it (RFC 7591 §3.2.2).
func TestRegisterRefused(t *testing.T) {
	r := newRegistry(t, registering("claude.ai", "cursor:"), nil)
	good := `{"redirect_uris":["https://claude.ai/cb"]}`
	if w := post(r, here, good); w.Code != http.StatusCreated {
		t.Fatal(w.Body)
	}
	long := strings.Repeat("x", 400)
	for name, tt := range map[string]struct{ body, code string }{
		"nothing":               {``, codeMetadata},
		"no JSON":               {`redirect_uris=x`, codeMetadata},
		"a list":                {`[]`, codeMetadata},
		"null":                  {`null`, codeMetadata},
		"two values":            {good + good, codeMetadata},
		"no redirects":          {`{}`, codeRedirect},
		"redirects in capitals": {`{"Redirect_URIs":["https://claude.ai/cb"]}`, codeRedirect},
		"empty redirects":       {`{"redirect_uris":[]}`, codeRedirect},
		"redirects are a text":  {`{"redirect_uris":"https://claude.ai/cb"}`, codeRedirect},
		"many redirects": {`{"redirect_uris":["https://claude.ai/cb"` +
			strings.Repeat(`,"https://claude.ai/cb"`, maxRedirects) + `]}`, codeRedirect},
		"http":           {`{"redirect_uris":["http://claude.ai/cb"]}`, codeRedirect},
		"another host":   {`{"redirect_uris":["https://claude.ai/cb","https://evil.example/cb"]}`, codeRedirect},
		"a host below":   {`{"redirect_uris":["https://x.claude.ai/cb"]}`, codeRedirect},
		"a user":         {`{"redirect_uris":["https://claude.ai@evil.example/cb"]}`, codeRedirect},
		"another scheme": {`{"redirect_uris":["vscode://x/cb"]}`, codeRedirect},
		"a script":       {`{"redirect_uris":["javascript:alert(1)"]}`, codeRedirect},
		"a page":         {`{"redirect_uris":["data:text/html,x"]}`, codeRedirect},
		"a fragment":     {`{"redirect_uris":["https://claude.ai/cb#x"]}`, codeRedirect},
		"no code": {`{"redirect_uris":["https://claude.ai/cb"],"grant_types":["client_credentials"]}`,
			codeMetadata},
		"implicit": {`{"redirect_uris":["https://claude.ai/cb"],"response_types":["token"]}`, codeMetadata},
		"grants are a text": {`{"redirect_uris":["https://claude.ai/cb"],"grant_types":"authorization_code"}`,
			codeMetadata},
		"a key":                  {`{"redirect_uris":["https://claude.ai/cb"],"token_endpoint_auth_method":"private_key_jwt"}`, codeMetadata},
		"a name that is no text": {`{"redirect_uris":["https://claude.ai/cb"],"client_name":{}}`, codeMetadata},
		"too much for an id": {`{"redirect_uris":["https://claude.ai/` + long + `","https://claude.ai/y` + long +
			`","https://claude.ai/z` + long + `"]}`, codeMetadata},
		"a long body": {`{"x":"` + strings.Repeat("x", maxRegistration) + `"}`, codeMetadata},
		"a long URI": {`{"redirect_uris":["https://claude.ai/` + strings.Repeat("x", maxRedirect) + `"]}`,
			codeRedirect},
		"a software statement too": {`{"redirect_uris":["https://evil.example/cb"],"software_statement":"x"}`, codeRedirect},
	} {
		w := post(r, here, tt.body)
		if a := answerOf(t, w); w.Code != http.StatusBadRequest || a.Error != tt.code || a.Because == "" || a.ID != "" {
			t.Errorf("%s: %d %+v", name, w.Code, a)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"a form":  func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") },
		"no type": func(r *http.Request) { r.Header.Del("Content-Type") },
	} {
		req := httptest.NewRequest(http.MethodPost, "/oauth/register", strings.NewReader(good))
		req.Header.Set("Content-Type", "application/json")
		change(req)
		w := httptest.NewRecorder()
		r.ServeRegister(w, req)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

func TestRegisterMethods(t *testing.T) {
	on, off := newRegistry(t, registering(), nil), newRegistry(t, Config{}, nil)
	for _, tt := range []struct {
		r      *Registry
		method string
		want   int
	}{{on, http.MethodOptions, 204}, {on, http.MethodGet, 405}, {on, http.MethodPut, 405}, {off, http.MethodPost, 404},
		{off, http.MethodOptions, 404}} {
		w := httptest.NewRecorder()
		tt.r.ServeRegister(w, httptest.NewRequest(tt.method, "/oauth/register", strings.NewReader("{}")))
		if w.Code != tt.want {
			t.Errorf("%s: %d", tt.method, w.Code)
		}
		if w.Code == 204 && !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Content-Type") {
			t.Error("pages cannot register")
		}
	}
}

// TestRegisteredIDForged: an id that this gateway has not made now, for itself, is nobody's.
func TestRegisteredIDForged(t *testing.T) {
	r := newRegistry(t, registering("claude.ai"), nil)
	id := answerOf(t, post(r, here, `{"redirect_uris":["https://claude.ai/cb"],"token_endpoint_auth_method":"none"}`)).ID
	other, err := seal.NewKey([]byte("fedcba9876543210fedcba9876543210"), "clients")
	if err != nil {
		t.Fatal(err)
	}
	purpose, err := seal.NewKey([]byte("0123456789abcdef0123456789abcdef"), "something else")
	if err != nil {
		t.Fatal(err)
	}
	sealed := []byte(`{"r":["https://evil.example/cb"],"e":99999999999}`)
	for name, forged := range map[string]string{
		"cut":                     id[:len(id)-2],
		"longer":                  id + "AA",
		"changed":                 id[:len(id)-2] + "AA",
		"without the prefix":      strings.TrimPrefix(id, registeredPrefix),
		"twice the prefix":        registeredPrefix + id,
		"another prefix":          "DCR_" + strings.TrimPrefix(id, registeredPrefix),
		"clear":                   registeredPrefix + string(sealed),
		"of another key":          registeredPrefix + other.Seal(sealed, issuer),
		"of another purpose":      registeredPrefix + purpose.Seal(sealed, issuer),
		"of another gateway":      registeredPrefix + r.deps.Key.Seal(sealed, issuer+"/"),
		"of an older config":      registeredPrefix + r.deps.Key.Seal(sealed, issuer),
		"something else, sealed":  registeredPrefix + r.deps.Key.Seal([]byte("x"), issuer),
		"with a line break in it": id[:9] + "\n" + id[9:],
	} {
		if refusal(t, r, forged) == "" {
			t.Errorf("%s: it is a client", name)
		}
	}
	if text := refusal(t, r, id); text != "" {
		t.Error(text)
	}
	// After the key was replaced, while the old one is accepted, and then no more.
	both, err := seal.NewKey([]byte("fedcba9876543210fedcba9876543210"), "clients",
		[]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	r.deps.Key = both
	if text := refusal(t, r, id); text != "" {
		t.Errorf("while both keys are accepted: %s", text)
	}
	r.deps.Key = other
	if text := refusal(t, r, id); !strings.Contains(text, "register again") {
		t.Errorf("after the old key has gone: %q", text)
	}
}

// TestRegisteredEnds: a registration has an end, and ends when the configuration does not allow it any more.
func TestRegisteredEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := registering("claude.ai")
		cfg.Registration.DCR.Lifetime = time.Hour
		r := newRegistry(t, cfg, nil)
		id := answerOf(t, post(r, here, `{"redirect_uris":["https://claude.ai/cb"]}`)).ID
		for _, now := range []Config{registering(), registering("evil.example"), {}} {
			if refusal(t, newRegistry(t, now, nil), id) == "" {
				t.Errorf("it is a client with %+v", now)
			}
		}
		time.Sleep(time.Hour - time.Second)
		if c, err := r.Find(t.Context(), id); err != nil || time.Until(c.Expires) != time.Second {
			t.Errorf("%+v, %v", c, err)
		}
		time.Sleep(time.Second)
		if refusal(t, r, id) == "" {
			t.Error("it has no end")
		}
	})
}

// TestDCRFloods: one address cannot register without end, nor can all of them, and what is kept of
// addresses has a bound.
func TestDCRFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t, registering(), nil)
		r.pace.shared = func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") }
		const body = `{"redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"none"}`
		flood := func(from func(i int) string, n int) (taken int) {
			for i := range n {
				w := post(r, from(i), body)
				switch {
				case w.Code == http.StatusCreated:
					taken++
				case w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || answerOf(t, w).Error == "":
					t.Fatalf("%d %s", w.Code, w.Body)
				}
			}
			return taken
		}
		if n := flood(func(int) string { return here }, 200); n != atOnceOfOne {
			t.Errorf("one address has registered %d times", n)
		}
		if n := flood(func(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) }, 200); n != atOnceOfOne {
			t.Errorf("one network has registered %d times", n)
		}
		if n := flood(func(int) string { return "10.0.0.1" }, 200); n != 200 {
			t.Errorf("a proxy has registered %d times", n)
		}
		time.Sleep(time.Hour)
		if n := flood(func(i int) string { return fmt.Sprintf("198.51.%d.%d", i/250, i%250) }, 2*atOnce); n != atOnce {
			t.Errorf("all together have registered %d times", n)
		}
		for i := range maxAddresses + 10 {
			r.pace.of(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}))
		}
		if n := r.pace.one.Len(); n > maxAddresses {
			t.Errorf("%d addresses are kept", n)
		}
	})
}

// FuzzRegister: every registration that is taken can be found, and its id is fit for a URL.
func FuzzRegister(f *testing.F) {
	key, err := seal.NewRandom("clients")
	if err != nil {
		f.Fatal(err)
	}
	r, err := New(registering("*", "cursor:"), Deps{Issuer: issuer, Key: key})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"redirect_uris":["http://localhost/cb"]}`)
	f.Add(`{"redirect_uris":["cursor://x/y","https://a.b/c?d=%20"],"client_name":"\u0000","client_uri":"https://x","token_endpoint_auth_method":"none"}`)
	f.Fuzz(func(t *testing.T, body string) {
		req := httptest.NewRequest(http.MethodPost, "/oauth/register", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		got, bad := r.register(req)
		if bad != nil {
			return
		}
		id := got["client_id"].(string)
		c, err := r.Find(t.Context(), id)
		if refused, ok := errors.AsType[*RefusedError](err); ok || len(id) > 1800 || c.Name == "" || len(c.Redirects) == 0 {
			t.Fatalf("%q: %+v, %v", body, c, refused)
		}
	})
}
