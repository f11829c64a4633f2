package tlsfiles_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// TestServerMistakes: what is missing or wrong is named by its key.
func TestServerMistakes(t *testing.T) {
	a, other := mcptest.NewAuthority(t), mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	otherCert, _ := other.Issue(t, "server", time.Hour)
	const none = "/nonexistent.pem"
	for name, tt := range map[string]struct {
		files tlsfiles.Server
		want  []string // "" for none
	}{
		"none":        {},
		"good":        {tlsfiles.Server{CertFile: cert, KeyFile: key, ClientCAFile: a.File(t), MinVersion: "1.3"}, nil},
		"no key":      {tlsfiles.Server{CertFile: cert}, []string{"key_file: is missing"}},
		"a key alone": {tlsfiles.Server{KeyFile: key}, []string{"cert_file: is missing"}},
		"a CA alone":  {tlsfiles.Server{ClientCAFile: cert}, []string{"cert_file: is missing", "key_file: is missing"}},
		"an old TLS":  {tlsfiles.Server{CertFile: cert, KeyFile: key, MinVersion: "1.1"}, []string{`min_version: "1.1"`}},
		"no files": {tlsfiles.Server{CertFile: none, KeyFile: none}, []string{"cert_file: " + none,
			"key_file: " + none}},
		"another's key": {tlsfiles.Server{CertFile: otherCert, KeyFile: key}, []string{"private key does not match"}},
		"no authority": {tlsfiles.Server{CertFile: cert, KeyFile: key, ClientCAFile: key},
			[]string{"client_ca_file: " + key}},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.files.Validate()
			if err == nil {
				err = tt.files.Check()
			}
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

// TestLiveLook: a changed file is taken once it is settled; one that cannot be used is reported once, and
// the one before stays.
func TestLiveLook(t *testing.T) {
	a := mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	live, err := tlsfiles.Server{CertFile: cert, KeyFile: key}.Open(tlsfiles.Orders{})
	if err != nil {
		t.Fatal(err)
	}
	look := func(now, want bool, problem string) {
		t.Helper()
		renewed, err := live.Look(now)
		if renewed != want || (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("renewed %t, error %v; want %t, %q", renewed, err, want, problem)
		}
	}
	look(true, false, "")
	a.Issue(t, "server", 2*time.Hour)
	look(false, false, "") // it may be half written
	look(false, true, "")
	look(false, false, "")
	if err := os.WriteFile(cert, []byte("-----BEGIN"), 0o600); err != nil {
		t.Fatal(err)
	}
	look(true, false, "cert_file")
	look(true, false, "")
	good := live.Status().Ends[0]
	if good.Problem == "" || time.Until(good.At) < time.Hour || good.File != cert {
		t.Errorf("%+v", good)
	}
	a.Issue(t, "server", -time.Minute)
	look(true, false, "has ended")
	a.Issue(t, "server", 3*time.Hour)
	look(true, true, "")
	if s := live.Status(); s.Renewed != 2 || s.Refused != 2 || s.Ends[0].Problem != "" ||
		time.Until(s.Ends[0].At) < 2*time.Hour {
		t.Errorf("%+v", s)
	}
}

// TestServerString: an operator reads what the listener asks for, and until when its certificate is good.
func TestServerString(t *testing.T) {
	a := mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	s := tlsfiles.Server{CertFile: cert, KeyFile: key, ClientCAFile: a.File(t), MinVersion: "1.3"}
	want := "TLS 1.3 or newer, server.pem, client certificates of ca.pem, good until " +
		time.Now().Add(time.Hour).UTC().Format(time.DateOnly)
	if got := s.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (tlsfiles.Server{}).String(); got != "" {
		t.Errorf("%q", got)
	}
}
