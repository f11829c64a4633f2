package dial_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestCertificatesOfServers: an invalid certificate is never ignored, the server
// receives nothing, and the client learns what is wrong.
func TestCertificatesOfServers(t *testing.T) {
	known, err := fake.Trusted()
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := fake.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		issuer *fake.Authority
		host   string
		until  time.Duration
		max    uint16 // version of TLS
		want   string // in the error, "" for none
	}{
		{"good", known, "127.0.0.1", time.Hour, 0, ""},
		{"expired", known, "127.0.0.1", -time.Hour, 0, "its certificate is not valid"},
		{"of another name", known, "other.example.com", time.Hour, 0, "its certificate is not valid"},
		{"of an unknown authority", unknown, "127.0.0.1", time.Hour, 0, "its certificate is not valid"},
		{"TLS 1.1", known, "127.0.0.1", time.Hour, tls.VersionTLS11, "the TLS handshake with it failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, stateful := range []bool{false, true} {
				f := fake.NewUnstarted(stateful, nil)
				tt.issuer.Serve(t, f, tt.host, tt.until, tt.max)
				u := f.Upstream(t, upstream.Config{})
				_, err := fake.Do(t, u, fake.Tool("a"))
				if tt.want == "" {
					if err != nil {
						t.Errorf("error %v", err)
					}
					continue
				}
				e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
				if !strings.Contains(e.Message, tt.want) || !strings.Contains(e.Message, "upstream fake") &&
					!strings.Contains(e.Message, "Upstream fake") {
					t.Errorf("the message is %q", e.Message)
				}
				if n := len(f.Requests("")); n != 0 {
					t.Errorf("the server got %d requests", n)
				}
				if status := u.Status(); status.State != upstream.StateDown || status.Last.Stage != upstream.StageTLS {
					t.Errorf("the upstream is %s, for %s", status.State, status.Last.Stage)
				}
			}
		})
	}
}
