package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Disclosure is the section "disclosure": how tools are described to clients. The mode of
// a client beats that of an upstream, which beats that of all.
type Disclosure struct {
	disclosure.Config `yaml:",inline"`
	// Clients are callers to whom tools are described in a mode of their own. Of several
	// that a caller belongs to, the first one holds. Default none.
	Clients []DisclosureClient `yaml:"clients"`
}

// DisclosureClient is how tools are described to some callers.
type DisclosureClient struct {
	// Who they are, as in rules of policy. Needed.
	Who policy.Who `yaml:"who"`
	// Mode is full or progressive. Needed.
	Mode string `yaml:"mode"`
}

// maxDisclosureClients bounds the list of clients.
const maxDisclosureClients = 1000

func (d Disclosure) validate(issuers []string) error {
	errs := []error{d.Config.Validate()}
	if len(d.Clients) > maxDisclosureClients {
		return errors.Join(append(errs, fmt.Errorf("clients: %d are more than %d", len(d.Clients), maxDisclosureClients))...)
	}
	for i, c := range d.Clients {
		add := func(key string, err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("clients[%d]: %s: %w", i, key, err))
			}
		}
		add("who", c.Who.Validate())
		add("who", c.Who.CheckIssuers(issuers))
		if c.Mode == "" {
			add("mode", errors.New("is needed: full or progressive"))
		}
		add("mode", disclosure.CheckMode(c.Mode))
	}
	return errors.Join(errs...)
}

// checkDisclosure reports what is wrong with what is said for one upstream.
func checkDisclosure(u upstream.Disclosure) error {
	var errs []error
	if err := disclosure.CheckMode(u.Mode); err != nil {
		errs = append(errs, fmt.Errorf("disclosure: mode: %w", err))
	}
	for tool, text := range u.Summaries {
		if err := disclosure.CheckSummary(text); err != nil {
			errs = append(errs, fmt.Errorf("disclosure: summaries[%s]: %w", tool, err))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }) // maps have no order
	return errors.Join(errs...)
}

// disclosure makes the stage of the pipeline.
func (c Config) disclosure(names disclosure.Resolver, with services) (*disclosure.Disclosure, error) {
	deps := disclosure.Deps{Resolver: names, Grants: with.grants, Log: with.log, Metrics: with.metrics.disclosure, Upstreams: make(map[string]disclosure.Upstream)}
	for _, u := range c.Upstreams {
		deps.Upstreams[u.Name] = disclosure.Upstream{Mode: u.Disclosure.Mode, Summaries: u.Disclosure.Summaries}
	}
	var sets []policy.Who
	for _, client := range c.Disclosure.Clients {
		sets = append(sets, client.Who)
		deps.Clients = append(deps.Clients, client.Mode)
	}
	audiences, err := policy.NewAudiences(sets)
	if err != nil {
		return nil, fmt.Errorf("disclosure: clients: %w", err)
	}
	deps.Whose = audiences.First
	return disclosure.New(c.Disclosure.Config, deps)
}

// progressive reports whether anybody is shown tools in short.
func (c Config) progressive() bool {
	short := func(mode string) bool { return mode == disclosure.ModeProgressive }
	return short(c.Disclosure.Mode) ||
		slices.ContainsFunc(c.Upstreams, func(u upstream.Config) bool { return short(u.Disclosure.Mode) }) ||
		slices.ContainsFunc(c.Disclosure.Clients, func(d DisclosureClient) bool { return short(d.Mode) })
}

// disclosureSummary tells the modes to people.
func (c Config) disclosureSummary() string {
	text := cmp.Or(c.Disclosure.Mode, disclosure.ModeFull)
	for _, u := range c.Upstreams {
		if u.Disclosure.Mode != "" && enabled(u) {
			text += fmt.Sprintf(", %s %s", u.Name, u.Disclosure.Mode)
		}
	}
	for i, client := range c.Disclosure.Clients {
		if i == 10 {
			return text + ", ..."
		}
		text += fmt.Sprintf(", clients[%d] %s", i, client.Mode)
	}
	return text
}

// CheckDescriptions reads the directory of descriptions, if there is one, and returns how
// many tools there are some of. The error tells of all files that are wrong.
func (c Config) CheckDescriptions() (int, error) {
	if c.Disclosure.Descriptions == "" {
		return 0, nil
	}
	all, err := disclosure.ReadDescriptions(c.Disclosure.Descriptions)
	if err != nil {
		return 0, fmt.Errorf("disclosure: descriptions: %w", err)
	}
	return len(all), nil
}
