package diagnosis

import (
	"fmt"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/servers"
	"github.com/gatehouse-mcp/gatehouse/internal/clienttls"
)

// BrokenOf returns what of servers no client can be shown.
func BrokenOf(now servers.Now) (all []Broken) {
	for i, view := range now.Views {
		for n, w := range servers.Withheld(view, now.Members[i].Server.Status()) {
			one := Broken{Upstream: view.Name, What: w.List, Name: w.Name, Reason: w.Reason}
			if n < len(view.Withheld) {
				one.Behind = view.Withheld[n].Behind
			} else { // the server's own
				one.What = strings.TrimSuffix(one.What, "s")
			}
			all = append(all, one)
		}
	}
	return all
}

// CertificatesOf returns the files of certificates of a configuration.
func CertificatesOf(cfg config.Config) (all []Certificate) {
	add := func(section string, files clienttls.Files) {
		for _, end := range files.Ends() {
			all = append(all, Certificate{Section: section, End: end})
		}
	}
	redis, traces := cfg.Sessions.Redis, cfg.Tracing
	add("sessions.redis", clienttls.Files{CA: redis.CAFile, Cert: redis.CertFile})
	add("tracing", clienttls.Files{CA: traces.CAFile, Cert: traces.CertFile})
	for i, s := range cfg.Audit.Sinks {
		add(fmt.Sprintf("audit.sinks[%d]", i), clienttls.Files{CA: s.CAFile, Cert: s.CertFile})
	}
	for i, h := range cfg.Hooks {
		if h.HTTP != nil {
			add(fmt.Sprintf("hooks[%d].http", i), clienttls.Files{CA: h.HTTP.CAFile, Cert: h.HTTP.CertFile})
		}
	}
	return all
}
