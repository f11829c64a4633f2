package front

import (
	"math"
	"strings"
	"testing"
)

func TestConfigThatCannotBeMeant(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"a negative body", Config{MaxRequestBytes: -1}, "max_request_bytes:"},
		{"a body that no memory holds", Config{MaxRequestBytes: math.MaxInt64}, "max_request_bytes:"},
		{"a negative time", Config{KeepAlive: -1}, "keep_alive:"},
		{"an origin with a path", Config{AllowedOrigins: []string{"https://a.example/"}}, "allowed_origins[0]:"},
		{"a host with a port", Config{AllowedHosts: []string{"a.example", "b.example:80"}}, "allowed_hosts[1]:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.cfg.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
