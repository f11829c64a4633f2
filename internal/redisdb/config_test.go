package redisdb

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestConfigURL(t *testing.T) {
	const hidden = "s3cret"
	tests := []struct {
		url  string
		want place
		err  string // a part of it
	}{
		{url: "redis://localhost", want: place{network: "tcp", addresses: []string{"localhost:6379"}}},
		{url: "redis://localhost/2", want: place{network: "tcp", addresses: []string{"localhost:6379"}, db: 2}},
		{url: "rediss://gate:s3cret@r.example:6380/0",
			want: place{network: "tcp", addresses: []string{"r.example:6380"}, tls: true, username: "gate", password: hidden}},
		{url: "redis://:p%40%2Fss@[::1]:7", want: place{network: "tcp", addresses: []string{"[::1]:7"}, password: "p@/ss"}},
		{url: "redis://[::1]", want: place{network: "tcp", addresses: []string{"[::1]:6379"}}},
		{url: "unix:///run/redis.sock", want: place{network: "unix", addresses: []string{"/run/redis.sock"}}},
		{url: "redis+sentinel://a,b:1/3?master=m", want: place{network: "tcp", addresses: []string{"a:26379", "b:1"},
			master: "m", db: 3}},
		{url: "rediss+cluster://a:1,b:2", want: place{network: "tcp", addresses: []string{"a:1", "b:2"}, tls: true,
			cluster: true}},
		{url: "", err: "want redis://"},
		{url: "localhost:6379", err: "want redis://"},
		{url: "http://localhost", err: "the scheme is none of"},
		{url: "redis+http://localhost", err: "the scheme is none of"},
		{url: "unix://run", err: "an absolute path"},
		{url: "redis://", err: "host:port"},
		{url: "redis://s3cret:x:y", err: "host:port"},
		{url: "redis://a,b", err: "several hosts are for"},
		{url: "redis://a/s3cret", err: "number of a database"},
		{url: "redis+cluster://a/1", err: "number of a database"},
		{url: "redis+sentinel://a", err: "needs ?master="},
		{url: "redis://a?master=m", err: "nothing else has one"},
		{url: "redis://a?password=s3cret", err: "only master may follow"},
		{url: "redis://u:%zz@a", err: "percent-encoded"},
	}
	for _, tt := range tests {
		got, err := Config{URL: mcp.Secret(tt.url)}.place()
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), hidden) {
				t.Errorf("%s: got %v, want %q and no secret in it", tt.url, err, tt.err)
			}
			continue
		}
		same := err == nil && slices.Equal(got.addresses, tt.want.addresses)
		got.addresses, tt.want.addresses = nil, nil
		if !same || got.network != tt.want.network || got.tls != tt.want.tls || got.cluster != tt.want.cluster ||
			got.master != tt.want.master ||
			got.db != tt.want.db || got.username != tt.want.username || got.password != tt.want.password {
			t.Errorf("%s: got %+v, %v, want %+v", tt.url, got, err, tt.want)
		}
	}
}
