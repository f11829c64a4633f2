package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Annotations of a Service.
const (
	// annotationPort is the number or name of the port. Default: that named mcp, or the only one.
	annotationPort = "gatehouse.dev/port"
	// annotationPath is the path of the endpoint. Default: /mcp.
	annotationPath = "gatehouse.dev/path"
)

// service is what is read of a Service (core/v1).
type service struct {
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		ResourceVersion   string            `json:"resourceVersion"`
		CreationTimestamp time.Time         `json:"creationTimestamp"`
		Annotations       map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Ports []port `json:"ports"`
	} `json:"spec"`
}

type port struct {
	Name        string `json:"name"`
	Port        int    `json:"port"`
	Protocol    string `json:"protocol"`
	AppProtocol string `json:"appProtocol"`
}

// key identifies a Service.
func (s service) key() string { return s.Metadata.Namespace + "/" + s.Metadata.Name }

// server is an upstream as an included file has it.
type server struct {
	Name           string `yaml:"name"`
	URL            string `yaml:"url"`
	AllowPlaintext bool   `yaml:"allow_plaintext,omitempty"`
}

var (
	// label is a DNS label (RFC 1035), as the API has checked it for Services.
	label    = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)
	pathText = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)
	dashes   = regexp.MustCompile(`-+`)
)

// longestName leaves room for names of tools: with naming.max_length by default, a longer prefix is refused.
const longestName = 22

// server returns the upstream that a Service is. Its name is that of the Service, with the namespace in front
// if it does not begin with that.
func (s service) server(domain string) (server, error) {
	name, namespace := s.Metadata.Name, s.Metadata.Namespace
	if !label.MatchString(name) || !label.MatchString(namespace) {
		return server{}, errors.New("its name, or that of its namespace, does not begin with a letter")
	}
	at, err := s.port()
	if err != nil {
		return server{}, err
	}
	path := cmp.Or(s.Metadata.Annotations[annotationPath], "/mcp")
	if !pathText.MatchString(path) || strings.Contains(path, "..") {
		return server{}, fmt.Errorf("%s: %q is no plain path, such as /mcp", annotationPath, path)
	}
	scheme := "http"
	if at.Name == "https" || strings.EqualFold(at.AppProtocol, "https") {
		scheme = "https"
	}
	to := url.URL{Scheme: scheme, Host: fmt.Sprintf("%s.%s.svc.%s:%d", name, namespace, domain, at.Port), Path: path}
	if name != namespace && !strings.HasPrefix(name, namespace+"-") {
		name = namespace + "-" + name
	}
	name = dashes.ReplaceAllString(name, "-")
	if len(name) > longestName || name == "gatehouse" {
		return server{}, fmt.Errorf("the name %s would be longer than %d characters, or is the gateway's own", name,
			longestName)
	}
	return server{name, to.String(), scheme == "http"}, nil
}

// port returns the port of the endpoint.
func (s service) port() (port, error) {
	if len(s.Spec.Ports) == 0 {
		return port{}, errors.New("it has no port")
	}
	wanted, said := s.Metadata.Annotations[annotationPort]
	if !said && len(s.Spec.Ports) == 1 {
		return s.Spec.Ports[0], nil
	}
	wanted = cmp.Or(wanted, "mcp")
	i := slices.IndexFunc(s.Spec.Ports, func(p port) bool { return p.Name == wanted || strconv.Itoa(p.Port) == wanted })
	if i < 0 {
		return port{}, fmt.Errorf("it has no port %q: %s can name one", wanted, annotationPort)
	}
	return s.Spec.Ports[i], nil
}

// namespaceOf returns the longest namespace with which a name begins, "" for none.
func namespaceOf(name string, namespaces map[string]bool) (longest string) {
	for n := range namespaces {
		if (name == n || strings.HasPrefix(name, n+"-")) && len(n) > len(longest) {
			longest = n
		}
	}
	return longest
}

// servers returns the upstreams of Services by namespace, and why others are left out, by their keys. Where two
// would have one name, the older one has it.
func servers(all map[string]service, domain string) (found map[string][]server, left map[string]error) {
	found, left = map[string][]server{}, map[string]error{}
	sorted := make([]service, 0, len(all))
	for _, s := range all {
		sorted = append(sorted, s)
	}
	slices.SortFunc(sorted, func(a, b service) int {
		return cmp.Or(a.Metadata.CreationTimestamp.Compare(b.Metadata.CreationTimestamp), strings.Compare(a.key(), b.key()))
	})
	owners, namespaces := map[string]string{}, map[string]bool{}
	for _, s := range sorted {
		namespaces[s.Metadata.Namespace] = true
	}
	for _, s := range sorted {
		up, err := s.server(domain)
		if other := namespaceOf(up.Name, namespaces); err == nil && len(other) > len(s.Metadata.Namespace) {
			err = fmt.Errorf("the name %s reads as one of the namespace %s", up.Name, other)
		}
		if owner := owners[up.Name]; err == nil && owner != "" {
			err = fmt.Errorf("%s has the name %s already", owner, up.Name)
		}
		if err != nil {
			left[s.key()] = err
			continue
		}
		owners[up.Name] = s.key()
		found[s.Metadata.Namespace] = append(found[s.Metadata.Namespace], up)
	}
	for _, list := range found {
		slices.SortFunc(list, func(a, b server) int { return strings.Compare(a.Name, b.Name) })
	}
	return found, left
}
