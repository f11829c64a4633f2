package grants

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// TestRotation: keys change by themselves. The next one is published before it signs, and the last
// one as long as its tokens are good.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state, err := NewState(expiring.Base{}, seal.NewRandom)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := state.NewKeys(auth.ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		signs := func() string {
			k, err := keys.signer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return k.ID
		}
		known := func(id string) bool { key, err := keys.Key(t.Context(), id); return err == nil && key != nil }
		first := signs()
		time.Sleep(signsFor - publishBefore + lookEvery)
		if all, err := state.ring.all(t.Context(), false); err != nil || len(all) != 2 || signs() != first {
			t.Fatalf("%v %v: the next key is not published, or signs too early", all, err)
		}
		time.Sleep(publishBefore)
		second := signs()
		if second == first || !known(first) || !known(second) || known("made-up") {
			t.Errorf("after a change: %s %s", first, second)
		}
		time.Sleep(signsFor - publishBefore)
		signs() // which makes the next one
		time.Sleep(publishBefore)
		if third := signs(); third == second || known(first) {
			t.Errorf("after two changes: %s %s", second, third)
		}
		time.Sleep(3 * signsFor) // nobody was here
		if fifth := signs(); fifth == "" || !known(fifth) {
			t.Error("no key after a long time")
		}
	})
}

// TestReplicas: replicas have the same keys, and give up the same grants.
func TestReplicas(t *testing.T) {
	server := redistest.Start(t)
	newSecret := func() []byte { secret := make([]byte, 32); rand.Read(secret); return secret }
	open := func(secret []byte) *Keys {
		db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(server.URL())}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		state, err := NewState(expiring.Base{Redis: db}, func(purpose string) (*seal.Key,
			error) {
			return seal.NewKey(secret, purpose)
		})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := state.NewKeys(auth.ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	secret := newSecret()
	one, other := open(secret), open(secret)
	a, err1 := one.signer(t.Context())
	b, err2 := other.signer(t.Context())
	if err1 != nil || err2 != nil || a.ID != b.ID {
		t.Fatalf("%v %v: two keys", err1, err2)
	}
	if key, err := other.Key(t.Context(), a.ID); err != nil || !a.private.PublicKey.Equal(key) {
		t.Errorf("%v %v", key, err)
	}
	stranger := open(newSecret()) // whose sessions.key is another one: nothing of it is stuck
	if k, err := stranger.signer(t.Context()); err != nil || k.ID == a.ID {
		t.Errorf("with another key: %v %v", k, err)
	}
	// What is not there has ended: whoever deletes something in Redis brings no token back.
	for _, want := range []bool{true, false, true} {
		if ended, err := other.Ended(t.Context(), "grant"); err != nil || ended != want {
			t.Errorf("%v %v, want %v", ended, err, want)
		}
		step := one.state.grants.Put(t.Context(), "grant", nil, time.Hour)
		if !want {
			step = one.state.end(t.Context(), "grant")
		}
		if step != nil {
			t.Fatal(step)
		}
	}
}

// TestSigningKey: a key of the configuration signs, if it is of the right kind.
func TestSigningKey(t *testing.T) {
	state, err := NewState(expiring.Base{}, seal.NewRandom)
	if err != nil {
		t.Fatal(err)
	}
	text := func(curve elliptic.Curve) mcp.Secret { private, _ := newPEM(t, curve); return private }
	good := text(elliptic.P256())
	one, err1 := state.NewKeys(auth.ServerConfig{SigningKey: good})
	other, err2 := state.NewKeys(auth.ServerConfig{SigningKey: good})
	if err1 != nil || err2 != nil || one.fixed.ID != other.fixed.ID {
		t.Fatalf("%v %v", err1, err2)
	}
	if key, err := other.Key(t.Context(), one.fixed.ID); err != nil || key == nil {
		t.Errorf("%v %v", key, err)
	}
	for _, bad := range []mcp.Secret{"secret", text(elliptic.P384())} {
		if _, err := state.NewKeys(auth.ServerConfig{SigningKey: bad}); err == nil {
			t.Error("a key of another kind is taken")
		}
	}
}

// newPEM makes a key. It returns its private and its public half.
func newPEM(t *testing.T, curve elliptic.Curve) (private, public mcp.Secret) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of, err1 := x509.MarshalPKCS8PrivateKey(key)
	half, err2 := x509.MarshalPKIXPublicKey(key.Public())
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) mcp.Secret {
		return mcp.Secret(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("PRIVATE KEY", of), text("PUBLIC KEY", half)
}

// TestSigningKeyReplaced: while replicas get another signing_key one after the other, each takes the
// tokens of all; and a key that was left out signs nothing that anybody takes.
func TestSigningKeyReplaced(t *testing.T) {
	state, err := NewState(expiring.Base{}, seal.NewRandom)
	if err != nil {
		t.Fatal(err)
	}
	old, oldHalf := newPEM(t, elliptic.P256())
	next, nextHalf := newPEM(t, elliptic.P256())
	_, foreign := newPEM(t, elliptic.P384())
	replica := func(signs mcp.Secret, previous ...mcp.Secret) mint {
		keys, err := state.NewKeys(auth.ServerConfig{SigningKey: signs, PreviousSigningKeys: previous})
		if err != nil {
			t.Fatal(err)
		}
		return mint{cfg: auth.ServerConfig{Issuer: "https://gateway.example", AccessTokenLife: time.Minute}, keys: keys}
	}
	stages := []mint{replica(old), replica(old, nextHalf), replica(next, old), replica(next, oldHalf, old), replica(next)}
	for _, pair := range [][2]int{{0, 1}, {1, 2}, {1, 3}, {2, 3}, {2, 4}} { // replicas may be one step apart
		for _, at := range [][2]int{{pair[0], pair[1]}, {pair[1], pair[0]}} {
			token, err := stages[at[0]].access(t.Context(), grant{Claims: mcp.Raw("{}")}, "g", nil)
			if err != nil {
				t.Fatal(err)
			}
			if name, err := stages[at[1]].grantOf(t.Context(), token); name != "g" || err != nil {
				t.Errorf("a token of stage %d at stage %d: %q %v", at[0], at[1], name, err)
			}
		}
	}
	token, err := stages[0].access(t.Context(), grant{Claims: mcp.Raw("{}")}, "g", nil)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := stages[4].grantOf(t.Context(), token); name != "" || err != nil {
		t.Errorf("a key that was left out signs on: %q %v", name, err)
	}
	rw := httptest.NewRecorder()
	stages[3].keys.jwks(rw, httptest.NewRequest(http.MethodGet, jwksPath, nil))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(rw.Body.Bytes(), &set); err != nil || len(set.Keys) != 2 || !set.Keys[0].IsPublic() ||
		!set.Keys[1].IsPublic() {
		t.Errorf("published: %s %v", rw.Body, err)
	}
	if _, err := state.NewKeys(auth.ServerConfig{SigningKey: next,
		PreviousSigningKeys: []mcp.Secret{foreign}}); err == nil {
		t.Error("a previous key of another kind is taken")
	}
}
