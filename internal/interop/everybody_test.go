//go:build interop

package interop

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// document is the URL of a document about a client. The gateway has a copy.
const document = "https://client.example.com/oauth/client.json"

// product is an identity provider in the manner of a product, and what docs/identity-providers.md says
// about the gateway's own authorization server in front of it.
type product struct {
	name, path string
	issuer     string // the issuer's settings, but its url
	scopes     string // further settings; %s is public_url
	user       string // who ada is there
}

var products = []product{
	{"entra", "/11111111-2222-3333-4444-555555555555/v2.0",
		"audiences: [66666666-7777-8888-9999-000000000000], claims: {groups: roles}",
		`required_scopes: [access], scopes_supported: ["%s/access"]`, "ada"},
	{"okta", "/oauth2/aus1a2b3c4d5e6f7g8h9", "claims: {user: uid, groups: groups}, require_typ: [okta-internal-at+jwt]",
		"required_scopes: [mcp]", "00u-ada"},
	{"keycloak", "/realms/acme", "claims: {groups: groups}", "required_scopes: [mcp]", "ada"},
}

// everybody is a gateway with an authorization server of its own in front of a provider.
type everybody struct {
	*lab
	desk     desktop
	front    *front
	config   rig.GatewayConfig
	gateway  rig.Gateway
	operates string // the address for operators
	// restart starts the gateway anew. As it has no sessions.key, it knows no client any more.
	restart  func()
	issuer   string
	upstream *mcptest.Server
	calls    int // of upstream, before the client that is tried
}

// TestEverybodySignsIn: clients that know nothing but the URL of the gateway sign their users in at
// providers where the gateway is the only client.
func TestEverybodySignsIn(t *testing.T) {
	l := newLab(t)
	for _, p := range products {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			e := l.startEverybody(t, p)
			for _, c := range e.clients(t, p.name) {
				t.Run(c.name, func(t *testing.T) { e.try(t, c) })
			}
		})
	}
}

// startEverybody starts a provider, a gateway in front of it, and a server behind that.
func (l *lab) startEverybody(t *testing.T, p product) *everybody {
	t.Helper()
	var addrs [3]string
	for i := range addrs {
		addrs[i] = mcptest.LoopbackAddress(t)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	e := &everybody{lab: l, desk: newDesktop(t, l.node.Binary), front: newFront(t, addrs[0], key),
		issuer: "http://" + addrs[1] + p.path}
	e.upstream = mcptest.NewServer(wire.Lookup(stateless))
	t.Cleanup(e.upstream.Close)
	e.upstream.Tools("add", "remove")
	e.upstream.Tool("add", func(c *mcptest.Call) { c.Text("added") })

	issuer := exec.Command(l.node.Binary, "provider.mjs", p.name, addrs[1], e.front.URL)
	issuer.Dir = l.node.Dir
	l.start(t, addrs[1], issuer)

	dir := t.TempDir()
	about := fmt.Sprintf(`{"client_id":%q,"client_name":"interop","redirect_uris":["http://127.0.0.1/callback","http://127.0.0.1/oauth/callback","http://localhost/oauth/callback"],`+
		`"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`, document)
	if err := os.WriteFile(filepath.Join(dir, "client.json"), []byte(about), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := json.Marshal(object{
		"enabled": true, "client_id": "gatehouse", "client_secret": "the-secret-of-the-gateway",
		"clients": []object{
			{"id": document, "document": "client.json"},
			{"id": named, "name": "Ada's desktop", "redirect_uris": []string{"http://127.0.0.1/callback"}},
		},
		"registration": object{"dcr": object{"enabled": true}},
		"signing_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	scopes := p.scopes
	if strings.Contains(scopes, "%s") {
		scopes = fmt.Sprintf(scopes, e.front.URL)
	}
	e.operates = addrs[2]
	e.config = rig.GatewayConfig{
		Binary: l.gateway, Dir: dir, Listen: addrs[0],
		Auth: fmt.Sprintf(`{mode: oauth, issuers: [{url: "%s", %s}], %s, server: %s}`, e.issuer, p.issuer, scopes, server),
		Sections: fmt.Sprintf(`
public_url: %s
admin: {listen: "%s"}
policy:
  default: deny
  rules:
    - {name: ada, who: {users: ["%[3]s %[4]s"], groups: ["%[3]s engineering"]}, allow: ["tools:up/add"]}
upstreams: [{name: up, url: "%[5]s"}]
`, e.front.URL, addrs[2], e.issuer, p.user, e.upstream.URL),
	}
	e.startGateway(t)
	e.restart = func() { // what it starts ends with this test, not with that of a client
		if err := e.gateway.Stop(); err != nil {
			t.Error(err)
		}
		e.startGateway(t)
	}
	return e
}

// startGateway starts the gateway and waits until it is ready.
func (e *everybody) startGateway(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	g, err := rig.StartGateway(ctx, e.config)
	if err != nil {
		t.Error(err)
		return
	}
	e.own(t, "the gateway", g.Process)
	e.gateway = g
	if err := g.WaitFor(ctx, func(ctx context.Context) error { return ready(ctx, e.operates) }); err != nil {
		t.Error(err)
	}
}

// ready asks a gateway whether it is ready, and its server too.
func ready(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var state struct {
		Ready     bool
		Upstreams []struct{ State string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&state); err != nil {
		return err
	}
	if !state.Ready || len(state.Upstreams) != 1 || state.Upstreams[0].State != "ready" {
		return fmt.Errorf("%+v", state)
	}
	return nil
}
