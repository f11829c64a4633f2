package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/gateway/keyfile"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestReloadAuth: the new rules decide on the next request, and clients with long-lived
// streams have to authenticate again.
func TestReloadAuth(t *testing.T) {
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			p := newSite(t, true, one("work", saying("x")))
			c, issuer := withIssuer(t)
			text := fmt.Sprintf("upstreams: [{name: a, url: %q}]\npublic_url: %q\npolicy: {default: allow}\nauth: {mode: oauth, issuers: [{url: %q}]%%s}\n",
				p.url, issuer.Audience, issuer.URL)
			c.write(t, fmt.Sprintf(text, ""))
			c.run(t)

			client := c.signedIn(ctx, t, revision, issuer.Token(map[string]any{"sub": "ann"}))
			listen := func() (*mcptest.Exchange, error) {
				if client.Revision.Stateful {
					return client.Get(ctx, "")
				}
				return client.Send(ctx, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
			}
			stream, err := listen()
			if err != nil || stream.Status != http.StatusOK {
				t.Fatalf("%+v, %v", stream, err)
			}
			defer stream.Close()
			if !client.Revision.Stateful {
				if _, err := stream.Next(); err != nil { // the acknowledgement
					t.Fatal(err)
				}
			}
			c.reload(t, fmt.Sprintf(text, ", required_scopes: [mcp]"))
			for { // what comes before the end: the result of the stateless one
				if _, err := stream.Next(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("the stream did not end in good order: %v", err)
				}
			}
			if again, err := listen(); err != nil || again.Status != http.StatusForbidden {
				t.Errorf("without the scope: %+v, %v", again, err)
			}
			client.Header.Set("Authorization", "Bearer "+issuer.Token(map[string]any{"sub": "ann", "scope": "mcp"}))
			again, err := listen()
			if err != nil || again.Status != http.StatusOK {
				t.Fatalf("with the scope: %+v, %v", again, err)
			}
			again.Close()
		})
	}
}

// TestReloadKeys: a key that is revoked in the file of keys is refused from the reload on, and its
// stream ends. A new key is good, and streams of others go on.
func TestReloadKeys(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := newSite(t, true, one("work", saying("x")))
	file := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("upstreams: [{name: a, url: %q}]\npolicy: {default: deny, rules: [{name: ci, who: {users: [ci-bot], issuers: [keys]}, allow: [\"*:*\"]}]}\nauth: {mode: keys, keys: {file: %q}}\n", p.url, file)
	add := func() (string, apikey.Entry) {
		key, id := apikey.New()
		e := apikey.Entry{ID: id, Hash: apikey.Hash(key), User: "ci-bot"}
		if err := keyfile.Append(file, e); err != nil {
			t.Fatal(err)
		}
		return key, e
	}
	key, entry := add()
	c := startUnwatched(t, text)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	with := func(key string) *mcptest.Client {
		client := mcptest.NewClient(c.URL(), wire.Lookup(stateful))
		client.HTTP, client.Header = &http.Client{Transport: transport}, http.Header{"Authorization": {"Bearer " + key}}
		return client
	}
	client := with(key)
	if err := client.Open(ctx); err != nil {
		t.Fatal(err)
	}
	stream, err := client.Get(ctx, "")
	if err != nil || stream.Status != http.StatusOK {
		t.Fatalf("%+v, %v", stream, err)
	}
	defer stream.Close()
	listening := mcptest.NewClient(c.URL(), wire.Lookup(stateless))
	listening.HTTP, listening.Header = client.HTTP, client.Header
	listens, err := listening.Send(ctx, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	if err != nil || listens.Status != http.StatusOK {
		t.Fatalf("%+v, %v", listens, err)
	}
	defer listens.Close()
	other, _ := add()
	if err := with(other).Open(ctx); err == nil {
		t.Error("a key is good before the reload")
	}
	c.reload(t, text)
	another := with(other)
	if err := another.Open(ctx); err != nil {
		t.Errorf("the new key: %v", err)
	}
	goesOn, err := another.Get(ctx, "")
	if err != nil || goesOn.Status != http.StatusOK {
		t.Fatalf("%+v, %v", goesOn, err)
	}
	defer goesOn.Close()
	if err := keyfile.Revoke(file, entry.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	c.reload(t, text)
	for name, x := range map[string]*mcptest.Exchange{"the stream": stream, "what listens": listens} {
		for err = nil; err == nil; {
			_, err = x.Next()
		}
		if err != io.EOF {
			t.Errorf("%s did not end in good order: %v", name, err)
		}
	}
	p.server.AddTool(&sdk.Tool{Name: "more", InputSchema: json.RawMessage(`{"type":"object"}`)}, saying("x"))
	if m, err := goesOn.Next(); err != nil || m.Method != "notifications/tools/list_changed" {
		t.Errorf("the stream of another key: %+v, %v", m, err)
	}
	if again, err := client.Get(ctx, ""); err != nil || again.Status != http.StatusUnauthorized {
		t.Errorf("with the revoked key: %+v, %v", again, err)
	}
	if err := with(other).Open(ctx); err != nil {
		t.Errorf("the other key: %v", err)
	}
}

// TestReloadBeforeTheFirstKey: a file of keys that is not there yet hinders no reload, its first key
// is good with the next one, and a file that vanishes does not take the keys away.
func TestReloadBeforeTheFirstKey(t *testing.T) {
	p := newSite(t, true, one("work", saying("x")))
	file := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("upstreams: [{name: a, url: %q}]\npolicy: {default: allow}\nauth: {mode: keys, keys: {file: %q}}\n", p.url, file)
	c := startUnwatched(t, text)
	c.reload(t, text+"\n# changed\n")
	key, id := apikey.New()
	if err := keyfile.Append(file, apikey.Entry{ID: id, Hash: apikey.Hash(key), User: "ci-bot"}); err != nil {
		t.Fatal(err)
	}
	c.reload(t, text)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := c.Gateway.Reload(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("without the file: %v", err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := mcptest.NewClient(c.URL(), wire.Lookup(stateful))
	client.HTTP, client.Header = &http.Client{Transport: transport}, http.Header{"Authorization": {"Bearer " + key}}
	if err := client.Open(t.Context()); err != nil {
		t.Errorf("with the key: %v", err)
	}
}

// TestReloadOfIssuerAndAudience: tokens are judged by the new rules at once. Nobody
// continues a session of the former issuer, not even under the same user name.
func TestReloadOfIssuerAndAudience(t *testing.T) {
	p := newSite(t, true, one("work", saying("x")))
	before, after := mcptest.NewIssuer(mcptest.IssuerOptions{}), mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer before.Close()
	defer after.Close()
	text := func(issuer *mcptest.Issuer, audience string) string {
		issuer.Audience = audience
		return fmt.Sprintf("upstreams: [{name: a, url: %q}]\npublic_url: https://g.example/mcp\nhttp: {allowed_hosts: [\"127.0.0.1\"]}\npolicy: {default: allow}\n"+
			"auth: {mode: oauth, issuers: [{url: %q, audiences: [%q]}]}\n", p.url, issuer.URL, audience)
	}
	c := startConfigured(t, text(before, "one"))
	waitReady(t, c.Gateway)
	client := mcptest.NewClient(c.URL(), wire.Lookup(stateful))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client.HTTP = &http.Client{Transport: transport}
	old := before.Token(map[string]any{"sub": "ann"})
	client.Header = http.Header{"Authorization": {"Bearer " + old}}
	if err := client.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	status := func(token string) int {
		t.Helper()
		client.Header.Set("Authorization", "Bearer "+token)
		x, err := client.Post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		return x.Status
	}
	if got := status(old); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	c.reload(t, text(before, "two"))
	if got := status(old); got != http.StatusUnauthorized {
		t.Errorf("a token for the audience before: %d", got)
	}
	if got := status(before.Token(map[string]any{"sub": "ann"})); got != http.StatusOK {
		t.Errorf("the session with a token for the new audience: %d", got)
	}
	c.reload(t, text(after, "two"))
	if got := status(before.Token(map[string]any{"sub": "ann"})); got != http.StatusUnauthorized {
		t.Errorf("a token of the issuer before: %d", got)
	}
	if got := status(after.Token(map[string]any{"sub": "ann"})); got != http.StatusNotFound {
		t.Errorf("the session of the issuer before: %d", got)
	}
}
