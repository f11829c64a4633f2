package trial

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
)

// Service tries servers for operators. Where operators may not change the file, what they try reads
// neither files nor the environment of this machine, starts no programs, and reaches no services of
// the host itself. Other URLs have the limits of any upstream.
type Service struct {
	Inspect Inspect
	File    *config.File // nil for none
	Now     func() operate.Now
}

// Probe makes an attempt. Errors: *admin.BadDraft for a text that cannot be tried, and those of
// Inspect.
func (s Service) Probe(ctx context.Context, p admin.Attempt) (admin.Probed, error) {
	given := func(name string) (string, bool) { value, has := p.Values[name]; return value, has }
	known := func(name string) (string, bool) {
		if value, has := given(name); has {
			return value, has
		}
		return os.LookupEnv(name)
	}
	text := []byte(p.Config)
	if problems := operate.MaskProblem(text); problems != nil {
		return admin.Probed{}, &admin.BadDraft{Problems: problems}
	}
	var reports []Report
	var doubts []config.Problem
	var err error
	now := s.Now().Config
	if s.File != nil && now.Admin.Console.Save {
		reports, doubts, err = Text(ctx, s.Inspect, s.File.Path, text, p.Server, known)
	} else {
		reports, doubts, err = blindly(ctx, s.Inspect, text, p.Server, now.Upstreams, given)
	}
	if bad, ok := errors.AsType[*config.Error](err); ok {
		return admin.Probed{}, &admin.BadDraft{Problems: operate.Problems(bad)}
	}
	if err != nil {
		return admin.Probed{}, err
	}
	found := admin.Probed{Warnings: operate.Problems(&config.Error{Problems: doubts})}
	for _, r := range reports {
		one := admin.ProbedServer{Name: r.Name, State: r.State, Server: r.Server, Revision: r.Revision, Tools: r.Tools,
			Prompts: r.Prompts, Resources: r.Resources, Skills: r.Skills, Hint: r.Hint, Error: r.Error}
		for _, w := range r.Withheld {
			one.Withheld = append(one.Withheld, fmt.Sprintf("%s %q: %s", w.List, w.Name, w.Reason))
		}
		found.Servers = append(found.Servers, one)
	}
	return found, nil
}
