package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Disclosure is the section "disclosure": how tools are described to clients. The mode of a
// client overrides the mode of an upstream, which overrides the general mode.
type Disclosure struct {
	disclosure.Config `yaml:",inline"`
	// Clients are callers to whom tools are described in a mode of their own. The first entry
	// that matches a caller decides. Default none.
	Clients []DisclosureClient `yaml:"clients"`
}

// DisclosureClient is the mode for some callers.
type DisclosureClient struct {
	// Who they are, as in rules of policy. Required.
	Who policy.Who `yaml:"who"`
	// Mode is full or progressive. Required.
	Mode string `yaml:"mode"`
}

// maxDisclosureClients bounds the list of clients.
const maxDisclosureClients = 1000

func (d Disclosure) validate(issuers []string) error {
	found := findings{d.Config.Validate()}
	if len(d.Clients) > maxDisclosureClients {
		found.add("clients", fmt.Errorf("%d are more than %d", len(d.Clients), maxDisclosureClients))
		return errors.Join(found...)
	}
	for i, c := range d.Clients {
		add := func(key string, err error) { found.add(fmt.Sprintf("clients[%d]: %s", i, key), err) }
		add("who", c.Who.Validate())
		add("who", c.Who.CheckIssuers(issuers))
		if c.Mode == "" {
			add("mode", errors.New("is needed: full or progressive"))
		}
		add("mode", disclosure.CheckMode(c.Mode))
	}
	return errors.Join(found...)
}

// checkDisclosure returns what is wrong with the settings for one upstream.
func checkDisclosure(u upstream.Disclosure) error {
	var found findings
	found.add("disclosure: mode", disclosure.CheckMode(u.Mode))
	for _, tool := range slices.Sorted(maps.Keys(u.Summaries)) {
		found.add(fmt.Sprintf("disclosure: summaries[%s]", tool), disclosure.CheckSummary(u.Summaries[tool]))
	}
	return errors.Join(found...)
}

// disclosureSummary describes the modes for people, "" if everything is described in full.
func (c Config) disclosureSummary() string {
	const most = 10 // clients
	modes, text := []string{c.Disclosure.Mode}, cmp.Or(c.Disclosure.Mode, disclosure.ModeFull)
	for _, u := range c.Upstreams {
		if u.Disclosure.Mode != "" && enabled(u) {
			modes, text = append(modes, u.Disclosure.Mode), text+fmt.Sprintf(", %s %s", u.Name, u.Disclosure.Mode)
		}
	}
	for i, client := range c.Disclosure.Clients {
		modes = append(modes, client.Mode)
		if i < most {
			text += fmt.Sprintf(", clients[%d] %s", i, client.Mode)
		}
	}
	if len(c.Disclosure.Clients) > most {
		text += ", ..."
	}
	if !slices.Contains(modes, disclosure.ModeProgressive) {
		return ""
	}
	return text
}

// showsInFull reports whether some clients get the tools of an upstream in full.
func (c Config) showsInFull(u upstream.Config) bool {
	if cmp.Or(u.Disclosure.Mode, c.Disclosure.Mode) != disclosure.ModeProgressive {
		return true
	}
	return slices.ContainsFunc(c.Disclosure.Clients, func(client DisclosureClient) bool { return client.Mode == disclosure.ModeFull })
}

// CheckDescriptions reads the directory of descriptions, if there is one, and returns how many
// tools have one. The error names all bad files.
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
