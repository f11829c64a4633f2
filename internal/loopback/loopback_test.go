package loopback

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.8.8.8": true, "::1": true, "[::1]": true,
		"::ffff:127.0.0.1": true,
		"":                 false, "localhost.example.com": false, "127.0.0.1.example.com": false, "10.0.0.1": false,
		"0.0.0.0": false, "::ffff:10.0.0.1": false,
	} {
		if Host(host) != want {
			t.Errorf("%q: want %t", host, want)
		}
	}
}

// TestSentToASocket: what comes over a socket in the file system is of this machine, except through a proxy.
func TestSentToASocket(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/s", Net: "unix"}))
	r.RemoteAddr, r.Host = "@", "localhost"
	if local, err := From(r); !local || err != nil || !Sent(r) {
		t.Errorf("%t, error %v", local, err)
	}
	r.Header.Set("X-Forwarded-For", "127.0.0.1")
	if Sent(r) {
		t.Error("it came through a proxy")
	}
}

func TestSent(t *testing.T) {
	const here = "127.0.0.1:5000"
	for _, tt := range []struct {
		name, from, host, header string
		sent, any                bool
	}{
		{name: "by address", from: here, host: "127.0.0.1:9090", sent: true, any: true},
		{name: "by name", from: here, host: "localhost", sent: true, any: true},
		{name: "over IPv6", from: "[::1]:5000", host: "[::1]:9090", sent: true, any: true},
		{name: "over IPv4 in IPv6", from: "[::ffff:127.0.0.1]:5000", host: "localhost", sent: true, any: true},
		{name: "of a page", from: here, host: "localhost", header: "Origin", any: true},
		{name: "of another machine", from: "10.0.0.9:5000", host: "localhost"},
		{name: "by a name that leads here", from: here, host: "rebound.example.com:9090"},
		{name: "through a proxy", from: here, host: "localhost", header: "X-Forwarded-For"},
		{name: "through a proxy that says so otherwise", from: here, host: "localhost", header: "Forwarded"},
		{name: "via another", from: here, host: "localhost", header: "Via"},
		{name: "of an unknown address", from: "pipe", host: "localhost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr, r.Host = tt.from, tt.host
			if tt.header != "" {
				r.Header.Set(tt.header, "x")
			}
			if Sent(r) != tt.sent || SentByAny(r) != tt.any {
				t.Errorf("%t %t", Sent(r), SentByAny(r))
			}
			if _, err := From(r); (err != nil) != (tt.from == "pipe") {
				t.Error(err)
			}
		})
	}
}
