package outbound

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// scripted is a token endpoint without a network: it numbers its tokens.
type scripted struct {
	asked    atomic.Int32
	lifetime string        // as JSON, "" for none
	delay    time.Duration // before each answer
	status   atomic.Int32  // instead of a token
	header   http.Header
}

func (s *scripted) send(req *http.Request) (*safehttp.Response, error) {
	n := s.asked.Add(1)
	req.Body.Close()
	select {
	case <-time.After(s.delay):
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
	if status := int(s.status.Load()); status != 0 {
		return &safehttp.Response{Status: status, Header: s.header}, nil
	}
	expires := ""
	if s.lifetime != "" {
		expires = `,"expires_in":` + s.lifetime
	}
	text := fmt.Sprintf(`{"access_token":"t%d","token_type":"Bearer","issued_token_type":"%saccess_token"%s}`, n,
		tokenTypePrefix, expires)
	return &safehttp.Response{Status: http.StatusOK, Body: []byte(text)}, nil
}

// scriptedCredentials makes credentials whose endpoint is scripted. It is for bubbles
// of synctest.
func scriptedCredentials(t *testing.T, kind string, s *scripted) *Credentials {
	t.Helper()
	cfg := Config{Type: kind, TokenURL: "https://login.example.com/token", ClientID: clientID, ClientSecret: secret}
	if kind == TypeTokenExchange {
		cfg.Issuer = issuerURL
	}
	c, _ := newCredentials(t, cfg, egress.Config{})
	c.endpoint.send = s.send
	return c
}

// A token is renewed before it ends, by one request, while it is still used.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{lifetime: "3600"}
		c := scriptedCredentials(t, TypeClientCredentials, s)
		start := time.Now()
		use := func() string {
			got, _ := authorization(t, c, mcp.Caller{})
			return got
		}
		if got := use(); got != "Bearer t1" {
			t.Fatalf("got %q", got)
		}
		time.Sleep(55*time.Minute - time.Since(start))
		synctest.Wait()
		if got := use(); got != "Bearer t1" || s.asked.Load() != 1 {
			t.Fatalf("got %q after %d requests: it is too early", got, s.asked.Load())
		}
		s.delay = 2 * time.Second
		time.Sleep(57*time.Minute + 31*time.Second - time.Since(start))
		for range 10 { // nobody waits for the new one
			if got := use(); got != "Bearer t1" {
				t.Errorf("got %q", got)
			}
		}
		time.Sleep(3 * time.Second)
		if got := use(); got != "Bearer t2" || s.asked.Load() != 2 {
			t.Errorf("got %q after %d requests, want one renewal", got, s.asked.Load())
		}
	})
}

// A token that has ended is never used; all who need the next one wait for one request.
func TestExpiry(t *testing.T) {
	for _, tt := range []struct {
		lifetime string
		dead     time.Duration
	}{
		{"60", 57 * time.Second},
		{"3600", time.Hour - 10*time.Second},
		{"", unknownLife - 10*time.Second},
		{"0", unknownLife - 10*time.Second},
		{"-5", unknownLife - 10*time.Second},
		{"31536000", longestLife - 10*time.Second},
		{"1e300", longestLife - 10*time.Second},
	} {
		t.Run("expires_in "+tt.lifetime, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{lifetime: tt.lifetime, delay: time.Second}
				c := scriptedCredentials(t, TypeClientCredentials, s)
				start := time.Now()
				authorization(t, c, mcp.Caller{})
				time.Sleep(tt.dead - time.Since(start))
				var all sync.WaitGroup
				for range 50 {
					all.Go(func() {
						if got, _ := authorization(t, c, mcp.Caller{}); got != "Bearer t2" {
							t.Errorf("got %q", got)
						}
					})
				}
				all.Wait()
				if got := s.asked.Load(); got != 2 {
					t.Errorf("got %d requests, want 2", got)
				}
			})
		})
	}
}

// While renewing fails, the token is used as long as it is good, and the endpoint is
// asked less and less often.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{lifetime: "3600"}
		c := scriptedCredentials(t, TypeClientCredentials, s)
		start := time.Now()
		authorization(t, c, mcp.Caller{})
		s.status.Store(http.StatusServiceUnavailable)
		time.Sleep(58 * time.Minute)
		for time.Since(start) < time.Hour-11*time.Second {
			if got, _ := authorization(t, c, mcp.Caller{}); got != "Bearer t1" {
				t.Fatalf("got %q", got)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got := s.asked.Load() - 1; got < 4 || got > 10 {
			t.Errorf("got %d attempts in 109 s, want about 7: 1, 2, 4, ... seconds apart", got)
		}
		time.Sleep(time.Hour)
		before := s.asked.Load()
		for range 10 * 600 {
			why(t, c, mcp.Caller{})
			time.Sleep(100 * time.Millisecond)
		}
		if got := s.asked.Load() - before; got < 8 || got > 15 {
			t.Errorf("got %d attempts in 10 minutes, want about 10", got)
		}
		s.status.Store(0)
		time.Sleep(73 * time.Second)
		if got, _ := authorization(t, c, mcp.Caller{}); !strings.HasPrefix(got, "Bearer t") {
			t.Errorf("got %q", got)
		}
	})
}

// The endpoint says when it wants to be asked again, within reason.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{"30": 30 * time.Second, "999999999": mostPause,
		"soon": time.Second} {
		t.Run(header, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{header: http.Header{"Retry-After": {header}}}
				s.status.Store(http.StatusTooManyRequests)
				c := scriptedCredentials(t, TypeClientCredentials, s)
				why(t, c, mcp.Caller{})
				s.status.Store(0)
				time.Sleep(want * 3 / 4)
				why(t, c, mcp.Caller{})
				if got := s.asked.Load(); got != 1 {
					t.Errorf("got %d requests, want 1: it is too early", got)
				}
				time.Sleep(want/2 + time.Second)
				authorization(t, c, mcp.Caller{})
			})
		})
	}
}

// An exchanged token does not outlive what it was exchanged for.
func TestExchangeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{lifetime: "36000"}
		c := scriptedCredentials(t, TypeTokenExchange, s)
		alice := caller("alice", "tok") // ends in an hour
		authorization(t, c, alice)
		time.Sleep(time.Hour - time.Second)
		if got, _ := authorization(t, c, alice); got != "Bearer t1" {
			t.Errorf("got %q", got)
		}
		time.Sleep(time.Second)
		if got := why(t, c, alice); !strings.Contains(got, "expired") || s.asked.Load() != 1 {
			t.Errorf("got %q after %d requests", got, s.asked.Load())
		}
	})
}

// A token that the upstream refused is replaced, once: an upstream that refuses
// every token does not cost its issuer a request for each call.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{lifetime: "3600"}
		c := scriptedCredentials(t, TypeClientCredentials, s)
		nobody := mcp.Caller{}
		_, first := authorization(t, c, nobody)
		if c.refused(nobody, first, http.StatusForbidden, `Bearer error="insufficient_scope", scope="admin"`) {
			t.Error("another token has the same scopes")
		}
		if !c.refused(nobody, first, http.StatusUnauthorized, "") {
			t.Fatal("want another attempt")
		}
		got, second := authorization(t, c, nobody)
		if got != "Bearer t2" {
			t.Errorf("got %q", got)
		}
		if !c.refused(nobody, first, http.StatusUnauthorized, "") {
			t.Error("who was refused with the old one can try the new one")
		}
		if again, _ := authorization(t, c, nobody); again != "Bearer t2" {
			t.Errorf("got %q: the new one was dropped for the old one", again)
		}
		for range 100 {
			if c.refused(nobody, second, http.StatusUnauthorized, "") {
				t.Fatal("the new one is refused as well: no more attempts now")
			}
		}
		time.Sleep(betweenForced)
		if !c.refused(nobody, second, http.StatusForbidden, `Bearer error="invalid_token"`) {
			t.Error("want another attempt, after a while")
		}
		authorization(t, c, nobody)
		if got := s.asked.Load(); got != 3 {
			t.Errorf("got %d requests", got)
		}
	})
}

// A caller who leaves takes nothing from the others, and Close from nobody more than
// the wait.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{delay: 5 * time.Second}
		c := scriptedCredentials(t, TypeClientCredentials, s)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the caller has left")
		left := make(chan error)
		go func() {
			_, err := c.Authorize(ctx, mcp.Caller{}, http.Header{})
			left <- err
		}()
		synctest.Wait()
		cancel(gone)
		if err := <-left; !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		if got, _ := authorization(t, c, mcp.Caller{}); got != "Bearer t1" || s.asked.Load() != 1 {
			t.Errorf("got %q after %d requests", got, s.asked.Load())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{delay: time.Hour}
		c := scriptedCredentials(t, TypeClientCredentials, s)
		start := time.Now()
		if got := why(t, c, mcp.Caller{}); !strings.Contains(got, "does not answer") || time.Since(start) != askTimeout {
			t.Errorf("got %q after %s", got, time.Since(start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{delay: time.Second}
		c := scriptedCredentials(t, TypeClientCredentials, s)
		done := make(chan struct{})
		go func() {
			defer close(done)
			why(t, c, mcp.Caller{})
		}()
		synctest.Wait()
		start := time.Now()
		c.Close()
		<-done
		if time.Since(start) != 0 {
			t.Errorf("it took %s", time.Since(start))
		}
		c.Close()
		if got := why(t, c, mcp.Caller{}); !strings.Contains(got, "being stopped") &&
			!strings.Contains(got, "does not answer") {
			t.Errorf("got %q", got)
		}
	})
}

// However many users come at once, the endpoint gets a few requests at a time.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{delay: time.Second}
		c := scriptedCredentials(t, TypeTokenExchange, s)
		var all sync.WaitGroup
		for i := range 3 * atOnce {
			all.Go(func() { authorization(t, c, caller(fmt.Sprint(i), fmt.Sprint("tok", i))) })
		}
		synctest.Wait()
		if got := s.asked.Load(); got != atOnce {
			t.Errorf("got %d requests at a time, want %d", got, atOnce)
		}
		all.Wait()
	})
}

// Who waited while the endpoint failed for others does not ask as well.
func TestFailureOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{delay: time.Second}
		s.status.Store(http.StatusServiceUnavailable)
		c := scriptedCredentials(t, TypeTokenExchange, s)
		var all sync.WaitGroup
		for i := range 3 * atOnce {
			all.Go(func() { why(t, c, caller(fmt.Sprint(i), fmt.Sprint("tok", i))) })
		}
		all.Wait()
		if got := s.asked.Load(); got != atOnce {
			t.Errorf("got %d requests, want %d", got, atOnce)
		}
	})
}
