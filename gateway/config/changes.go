package config

import (
	"reflect"

	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// ChangedSections returns the keys of the sections in which two configurations differ.
func ChangedSections(before, next Config) (sections []string) {
	was, is := reflect.ValueOf(before), reflect.ValueOf(next)
	for i := range was.NumField() {
		key := was.Type().Field(i).Tag.Get("yaml")
		if key != "-" && !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			sections = append(sections, key)
		}
	}
	return sections
}

// ChangedServers returns the names of the enabled upstreams in which two configurations differ.
func ChangedServers(before, next Config) (added, replaced, removed []string) {
	was := make(map[string]upstream.Config)
	for _, u := range before.Upstreams {
		if Enabled(u) {
			was[u.Name] = u
		}
	}
	for _, u := range next.Upstreams {
		former, had := was[u.Name]
		switch {
		case !Enabled(u):
			continue
		case !had:
			added = append(added, u.Name)
		case !SameServer(u, former):
			replaced = append(replaced, u.Name)
		}
		delete(was, u.Name)
	}
	for _, u := range before.Upstreams {
		if _, gone := was[u.Name]; gone {
			removed = append(removed, u.Name)
		}
	}
	return added, replaced, removed
}

// SameServer reports whether two configurations of an upstream differ at most in how others
// see it.
func SameServer(a, b upstream.Config) bool {
	a.Prefix, a.Enabled, a.Disclosure, a.Results, a.Pinning = b.Prefix, b.Enabled, b.Disclosure, b.Results, b.Pinning
	return reflect.DeepEqual(a, b)
}
