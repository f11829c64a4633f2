package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want []string // parts of the error, in order; none for a good one
	}{
		{"nothing", Config{}, nil},
		{"alone", Config{Alone: true}, nil},
		{"one host", Config{Listen: "10.0.0.1:8082"}, nil},
		{"any host", Config{Listen: "0.0.0.0:8082", Advertise: "10.0.0.1:8082"}, nil},
		{"a name", Config{Listen: ":8082", Advertise: "gatehouse-0.gatehouse:8082"}, nil},
		{"IPv6", Config{Listen: "[::]:8082", Advertise: "[fd00::1]:8082"}, nil},
		{"any port", Config{Listen: "127.0.0.1:0"}, nil},
		{"nothing to advertise", Config{Listen: "0.0.0.0:8082"}, []string{"advertise: needed"}},
		{"nor here", Config{Listen: ":8082"}, []string{"advertise: needed"}},
		{"alone with a link", Config{Alone: true, Listen: "10.0.0.1:8082"}, []string{"alone: "}},
		{"no address", Config{Listen: "8082"}, []string{"listen: "}},
		{"no port", Config{Listen: "10.0.0.1:x"}, []string{"listen: "}},
		{"everybody's address", Config{Listen: ":8082", Advertise: "0.0.0.0:8082"}, []string{"advertise: "}},
		{"no port to advertise", Config{Listen: ":8082", Advertise: "10.0.0.1:0"}, []string{"advertise: "}},
		{"an address alone", Config{Listen: ":8082", Advertise: "fd00::1"}, nil},
		{"in brackets", Config{Listen: ":8082", Advertise: "[fd00::1]"}, nil},
		{"with a port", Config{Listen: ":8082", Advertise: "[fd00::1]:9000"}, nil},
		{"a name alone", Config{Listen: ":0", Advertise: "replica-1"}, nil},
		{"a port without brackets", Config{Listen: ":8082", Advertise: "fd00::1:8082"},
			[]string{"advertise: \"fd00::1:8082\": is its end a port? Put an IPv6 address in brackets"}},
		{"everybody's address alone", Config{Listen: ":8082", Advertise: "::"}, []string{"advertise: "}},
		{"nobody listens", Config{Advertise: "10.0.0.1:8082"}, []string{"advertise: "}},
		{"all of it", Config{Listen: "x", Advertise: "y:z"}, []string{"listen: ", "advertise: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if err == nil {
				if len(tt.want) > 0 {
					t.Fatal("it is taken")
				}
				return
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("got %q, want %q", lines, tt.want)
			}
			for i, part := range tt.want {
				if !strings.HasPrefix(lines[i], part) {
					t.Errorf("got %q, want %q", lines[i], part)
				}
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	db := openDB(t, "127.0.0.1:1")
	tests := []struct {
		name string
		cfg  Config
		deps Deps
		want string
	}{
		{"no link", Config{}, Deps{DB: db, Key: []byte(testKey), Idle: time.Minute}, "replicas: listen: needed"},
		{"no time", Config{Alone: true}, Deps{DB: db}, "no time"},
		{"no key", Config{Listen: "127.0.0.1:0"}, Deps{DB: db, Idle: time.Minute}, "key"},
		{"no such address", Config{Listen: "192.0.2.1:0"}, Deps{DB: db, Key: []byte(testKey), Idle: time.Minute}, "listen"},
		{"a bad one", Config{Listen: "x"}, Deps{}, "replicas: listen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.cfg, tt.deps); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestMetricsTwice: another package may have registered metrics with the same names.
func TestMetricsTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	prometheus.WrapRegistererWith(nil, reg).MustRegister(prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gatehouse_replicas_gone_total",
		Help: "Other replicas that have gone without a word: they refused connections, or their leases ended.",
	}))
	NewMetrics(reg).replicasGone.Inc()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "gatehouse_replicas_gone_total" && f.GetMetric()[0].GetCounter().GetValue() == 1 {
			return
		}
	}
	t.Error("what is registered does not count")
}

// TestAdvertised: an address without a port gets the one at which the replica listens.
func TestAdvertised(t *testing.T) {
	for given, want := range map[string]string{
		"10.0.0.1": "10.0.0.1:8082", "fd00::1": "[fd00::1]:8082", "[fd00::1]": "[fd00::1]:8082",
		"replica-1":     "replica-1:8082",
		"10.0.0.1:9000": "10.0.0.1:9000", "[fd00::1]:9000": "[fd00::1]:9000", "replica-1:9000": "replica-1:9000",
	} {
		if got := (Config{Advertise: given}).advertised(8082); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}
