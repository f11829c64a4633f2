package admin

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/gateway/setup"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// longestProbe bounds the time of a trial of servers.
const longestProbe = 60 * time.Second

// SetupText is a text to make servers of: the file of a client, URLs, or commands.
type SetupText struct {
	Text string `json:"text"`
}

// SetupDraft is the configuration made of a SetupText.
type SetupDraft struct {
	Servers []SetupServer `json:"servers"`
	// Config is a whole configuration with these servers, Upstreams the servers alone, as items of
	// "upstreams". Merged is the file of this gateway with them, "" if they cannot be added to it
	// as it is written, or it is not shown.
	Config    string           `json:"config"`
	Upstreams string           `json:"upstreams"`
	Merged    string           `json:"merged,omitempty"`
	Revision  string           `json:"revision,omitempty"` // of the file that Merged comes from
	Variables []setup.Variable `json:"variables"`
	Notes     []setup.Note     `json:"notes"`
}

// SetupServer is one server that was found.
type SetupServer struct {
	Name    string   `json:"name"`
	URL     string   `json:"url,omitempty"`
	Command []string `json:"command,omitempty"`
	Enabled bool     `json:"enabled"`
}

// SetupClients has the settings that clients need to find this gateway.
type SetupClients struct {
	Endpoint string          `json:"endpoint"`
	Clients  []setup.Snippet `json:"clients"`
}

// Attempt asks to try servers.
type Attempt struct {
	// Config is a text of a configuration. In its place, Text is one for SetupText; the values that
	// it has of its variables are used.
	Config string `json:"config,omitempty"`
	Text   string `json:"text,omitempty"`
	// Server is the name of one of its servers; "" for all.
	Server string `json:"server,omitempty"`
	// Values are variables for its references. They are used for this only, and not kept.
	Values map[string]string `json:"values,omitempty"`
}

// Probed is the result of an Attempt.
type Probed struct {
	Servers []ProbedServer `json:"servers"`
	// Warnings tell what known clients cut or refuse, and what may deceive.
	Warnings []Problem `json:"warnings"`
}

// ProbedServer is the result for one server.
type ProbedServer struct {
	Name      string   `json:"name"`
	State     string   `json:"state"`  // up, failing, down, connecting, or "per user"
	Server    string   `json:"server"` // the name that it gives itself
	Revision  string   `json:"revision"`
	Tools     int      `json:"tools"`
	Prompts   int      `json:"prompts"`
	Resources int      `json:"resources"`
	Skills    int      `json:"skills"`
	Withheld  []string `json:"withheld,omitempty"` // items that clients do not see, and why
	Hint      string   `json:"hint,omitempty"`     // a probable mistake
	Error     string   `json:"error,omitempty"`    // why it cannot be used
}

func setupClients(_ context.Context, a *API, _ Operator, _ None) (SetupClients, error) {
	endpoint := a.deps.Configuration.State().Endpoint
	return SetupClients{Endpoint: endpoint, Clients: setup.Snippets(endpoint)}, nil
}

// makeSetup makes servers of the files of clients. The answer has no secrets.
func makeSetup(_ context.Context, a *API, _ Operator, t SetupText) (answer SetupDraft, err error) {
	var d setup.Draft
	if err := d.Read(t.Text, ""); err != nil {
		return answer, &BadDraft{Problems: []Problem{{Message: err.Error()}}}
	}
	answer.Servers = []SetupServer{}
	if answer.Config, err = d.Config(); err != nil {
		return answer, err
	}
	d.Avoid(configured(a))
	if answer.Upstreams, err = d.Upstreams(); err != nil {
		return answer, err
	}
	if file, err := a.deps.Settings.Text(); err == nil && file.Text != "" {
		if merged, ok := configtext.Append(file.Text, "upstreams", answer.Upstreams); ok {
			answer.Merged, answer.Revision = merged, file.Revision
		}
	}
	for _, s := range d.Servers {
		answer.Servers = append(answer.Servers, SetupServer{Name: s.Name, URL: s.URL, Command: s.Command, Enabled: !s.Off})
	}
	answer.Variables, answer.Notes = some(d.Variables), some(d.Notes)
	return answer, nil
}

// configured returns the names of the servers that this gateway has.
func configured(a *API) (names []string) {
	for _, u := range a.deps.Configuration.State().Servers {
		names = append(names, u.Name)
	}
	return names
}

// fill makes the configuration of a Text, with the same names as /setup.
func (p *Attempt) fill(taken []string) error {
	var d setup.Draft
	if err := d.Read(p.Text, ""); err != nil {
		return &BadDraft{Problems: []Problem{{Message: err.Error()}}}
	}
	d.Avoid(taken)
	values := d.Values()
	for name, value := range p.Values {
		if value != "" {
			values[name] = value
		}
	}
	p.Values = values
	config, err := d.Config()
	p.Config = config
	return err
}

// probe tries servers, one request at a time. Programs run, and the environment and files of the
// gateway are read, only where operators may change the configuration anyway.
func probe(ctx context.Context, a *API, who Operator, p Attempt) (found Probed, err error) {
	if !a.probes.TryLock() {
		return found, busy("another probe runs: try again when it has ended")
	}
	defer a.probes.Unlock()
	ctx, cancel := context.WithTimeout(ctx, longestProbe)
	defer cancel()
	if p.Text != "" {
		if err := p.fill(configured(a)); err != nil {
			return found, err
		}
	}
	if found, err = a.deps.Prober.Probe(ctx, p); err != nil {
		return found, err
	}
	a.acted(who, &record.Record{Event: "servers probed", Reason: p.Server})
	found.Servers, found.Warnings = some(found.Servers), some(found.Warnings)
	return found, nil
}
