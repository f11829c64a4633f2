package main

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestSiegeKeys: forged tokens do not cause genuine ones to be refused, including those
// signed with a key that the issuer has just begun to use, and an ID token gives no access.
func TestSiegeKeys(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	up := newWorker(t, serverRev)
	s := besiege(t, fmt.Sprintf("upstreams:\n- {name: up, url: %q}\n", up.URL), "up")
	client := http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	with := func(token string) (status int, retry string) {
		t.Helper()
		req, err := http.NewRequestWithContext(deadline(t), http.MethodPost, s.endpoint(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	s.undisturbed(t, "up__echo", func() {
		if status, _ := with(s.issuer.Sign(map[string]any{"typ": "JWT"},
			map[string]any{"client_id": nil, "email": "a@example.com"})); status != http.StatusUnauthorized {
			t.Errorf("an ID token: %d", status)
		}
		thief := mcptest.NewKey("", "ES256", 0)
		made := map[string]any{"iss": s.issuer.URL, "sub": "bob", "aud": siegeResource,
			"exp": time.Now().Add(time.Hour).Unix()}
		for i := range 20 {
			if status, _ := with(thief.With(fmt.Sprint("thief-", i), "ES256").Sign(nil,
				made)); status != http.StatusUnauthorized && status != http.StatusServiceUnavailable {
				t.Errorf("a made-up token: %d", status)
			}
		}
		s.issuer.AddKey("ES256")
		var retry string
		for i := range 3 {
			var status int
			if status, retry = with(s.issuer.Token(map[string]any{"sub": fmt.Sprint("alice-",
				i)})); status != http.StatusServiceUnavailable {
				t.Fatalf("a token of a new key: %d", status)
			}
		}
		seconds, err := strconv.Atoi(retry)
		if err != nil || seconds > 5 {
			t.Fatalf("Retry-After: %q", retry)
		}
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-t.Context().Done():
		}
		if status, _ := with(s.issuer.Token(map[string]any{"sub": "alice"})); status == http.StatusUnauthorized ||
			status == http.StatusServiceUnavailable {
			t.Errorf("a token of a new key, later: %d", status)
		}
	})
}
