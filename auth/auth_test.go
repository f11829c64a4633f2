package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestValidate(t *testing.T) {
	const reach = "without authentication anyone who reaches "
	tests := []struct {
		name, mode, listen string
		want               string // part of the error; "" for none
	}{
		{"the zero config", "", "127.0.0.1:8080", ""},
		{"mode none", "none", "127.0.0.1:8080", ""},
		{"any of 127/8", "none", "127.8.9.10:0", ""},
		{"IPv6", "none", "[::1]:8080", ""},
		{"IPv4 written as IPv6", "none", "[::ffff:127.0.0.1]:8080", ""},
		{"localhost", "none", "LocalHost:8080", ""},

		{"another mode", "oauth", "127.0.0.1:8080", `mode: "oauth" does not exist: the only mode is none`},
		{"a mode in capitals", "NONE", "127.0.0.1:8080", `mode: "NONE" does not exist`},
		{"no host", "none", ":8080", reach + ":8080 (all interfaces) could use every upstream; listen on 127.0.0.1:8080"},
		{"all of IPv4", "none", "0.0.0.0:8080", reach + "0.0.0.0:8080"},
		{"all of IPv6", "none", "[::]:8080", reach + "[::]:8080"},
		{"all of IPv4 as IPv6", "none", "[::ffff:0.0.0.0]:8080", reach},
		{"a private address", "none", "10.0.0.1:8080", reach},
		{"a public address", "none", "203.0.113.7:80", reach},
		{"a link-local address", "none", "[fe80::1%eth0]:80", reach},
		{"a name", "none", "gateway.example:80", reach},
		{"a name that begins well", "none", "localhost.example:80", reach},
		{"an address that begins well", "none", "127.0.0.1.example:80", reach},
		{"an octal address", "none", "0177.0.0.1:80", reach},
		{"both at once", "oauth", "0.0.0.0:80", `the only mode is none, for a listener on a loopback address; write none or leave it out` + "\n" + reach},
		{"no port", "none", "127.0.0.1", `"127.0.0.1" is not host:port`},
		{"nothing", "none", "", `"" is not host:port`},
		{"IPv6 without brackets", "none", "::1:8080", "is not host:port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := auth.Config{Mode: tt.mode}
			err := errors.Join(cfg.Validate(), cfg.CheckListener(tt.listen))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case tt.want != "" && err == nil:
				t.Errorf("got no error, want one with %q", tt.want)
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("got %q, want it to contain %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "%!") {
				t.Errorf("the message is not well formatted: %q", err)
			}
		})
	}
}

func TestRequire(t *testing.T) {
	var users []string
	h := auth.Require(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c, ok := mcp.CallerFrom(r.Context())
		if !ok {
			t.Error("no caller in the context")
		}
		users = append(users, c.User())
	}))
	for range 2 {
		req := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		h.ServeHTTP(httptest.NewRecorder(), req)
		if _, ok := mcp.CallerFrom(req.Context()); ok {
			t.Error("the inbound request was changed")
		}
	}
	if want := (mcp.Caller{}).User(); users[0] != want || users[1] != want {
		t.Errorf("got users %v, want %s for both", users, want)
	}
}
