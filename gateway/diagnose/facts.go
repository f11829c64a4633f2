package diagnose

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
)

// BrokenOf returns the items of servers that no client can be shown.
func BrokenOf(now operate.Now) (all []Broken) {
	for i, view := range now.Catalog.Status() {
		for n, w := range operate.Withheld(view, now.Members[i].Server.Status()) {
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
	for _, of := range config.CertificatesOf(cfg) {
		for _, end := range of.Ends() {
			all = append(all, Certificate{Section: of.Section, End: end})
		}
	}
	return all
}
