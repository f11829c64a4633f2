package disclosure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxBytes bounds the descriptions of one answer; the first description always fits.
	maxBytes = 1 << 20
	// maxAvailable bounds the available names in an answer about a name that does not exist.
	maxAvailable = 100
)

// described is the answer to a request for descriptions.
type described struct {
	body  mcp.Raw
	error bool // body describes the mistake in the request
}

// describe answers with the full descriptions of tools, and records that the caller has
// seen them. A tool that the caller may not use looks like one that does not exist. Without
// names it answers with missing.
func (s stage) describe(ctx context.Context, c *mcp.Call, names []string, missing mcp.Raw) (described, error) {
	switch {
	case len(names) == 0:
		return described{missing, true}, nil
	case len(names) > maxSelected:
		return described{tooMany(), true}, nil
	}
	all, err := s.tools(ctx, c)
	if err != nil {
		return described{}, err
	}
	wanted := map[string]*mcp.Item{ToolName: &s.own}
	var available []string
	for i := range all {
		if slices.Contains(names, all[i].Name) {
			wanted[all[i].Name] = &all[i]
		}
		if len(available) < maxAvailable {
			available = append(available, all[i].Name)
		}
	}
	body, shown := s.write(names, wanted, available)
	s.grantTo(ctx, c, shown)
	return described{body: body}, nil
}

// write makes the object of descriptions, in the order of the names, and returns which
// definitions it shows.
func (s stage) write(names []string, wanted map[string]*mcp.Item, available []string) (body mcp.Raw,
	shown map[string]string) {
	body, shown = mcp.Raw{'{'}, make(map[string]string)
	for _, name := range names {
		var entry mcp.Raw
		switch item := wanted[name]; {
		case item == nil:
			entry = notFound(name, available)
		default:
			entry = s.full(*item)
			if len(shown) > 0 && len(body)+len(entry) > maxBytes {
				entry = mcp.Object("error", mcp.String("These descriptions are too large together: ask for '"+name+
					"' in a request of its own"))
				break
			}
			shown[name] = s.digest(*item)
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(append(mcp.AppendString(body, name), ':'), entry...)
	}
	return append(body, '}'), shown
}

// full returns the full description of a tool under its public name, as a host shows one to a
// model, with examples and guidance if there are any (2.1 §4.4). It leaves out what tools/list
// already says and what is true of all tools. The operator's texts replace the upstream's, but
// never a schema.
func (d *Disclosure) full(item mcp.Item) mcp.Raw {
	file := d.files[item.Name]
	out := mcp.Object("name", mcp.String(item.Name))
	description, _ := item.Raw.Member("description")
	switch {
	case file.Description != "":
		description = mcp.String(file.Description)
	case description.Text() == "":
		description = mcp.String(d.summary(item))
	}
	schema, ok := item.Raw.Member("inputSchema")
	if !ok {
		schema = mcp.Raw(`{"type":"object"}`)
	}
	out = out.With("description", description).With("inputSchema", schema)
	for _, m := range []struct {
		name       string
		file, ours mcp.Raw
	}{
		{"examples", mcp.Raw(file.Examples), examplesOf(schema)},
		{"usage_guidance", mcp.Raw(file.UsageGuidance), nil},
		{"error_guidance", mcp.Raw(file.ErrorGuidance), nil},
	} {
		value := m.file
		if value == nil {
			value, _ = guidance(item).Member(m.name) // the upstream's
		}
		if value == nil {
			value = m.ours
		}
		if value != nil {
			out = out.With(m.name, value)
		}
	}
	return out
}

// guidance returns the guidance of an upstream that itself discloses its tools progressively.
func guidance(item mcp.Item) mcp.Raw {
	meta, _ := item.Raw.Member("_meta")
	value, _ := meta.Member(mcp.MetaGuidance)
	return value
}

// examplesOf turns the examples in a schema (JSON Schema, examples) into examples of calls.
func examplesOf(schema mcp.Raw) mcp.Raw {
	inputs, _ := schema.Member("examples")
	out := inputs.Filter(func(input mcp.Raw) mcp.Raw {
		if !input.IsObject() {
			return nil
		}
		return mcp.Object("input", input)
	})
	if len(out) == len("[]") {
		return nil
	}
	return out
}

// digest identifies a definition: it changes with everything that the upstream or the
// operator says about a tool.
func (d *Disclosure) digest(item mcp.Item) string {
	h := sha256.New()
	h.Write(item.Raw)
	if text := d.files[item.Name].text; text != nil {
		h.Write([]byte{0})
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// grantTo records the definitions that the caller has seen. If the store fails, the answer stays
// the same; the check of the later call deals with the missing grant.
func (s stage) grantTo(ctx context.Context, c *mcp.Call, shown map[string]string) {
	delete(shown, ToolName)
	if len(shown) == 0 {
		return
	}
	ttl := time.Duration(0)
	if c.Ephemeral {
		ttl = s.grant
	}
	if err := s.grants.Grant(ctx, c.Session, shown, ttl); err != nil {
		s.log.DebugContext(ctx, "it was not noted which descriptions were shown", slog.Any("error", err))
	}
}

// notFound returns the entry for a tool that does not exist for the caller (2.1 §6.3).
func notFound(name string, available []string) mcp.Raw {
	return mcp.Object("error", mcp.String("Tool '"+name+"' not found"), "available_tools", mcp.Strings(available))
}

// missing returns the answer to a request that selects nothing (2.1 §6.1).
func missing() mcp.Raw {
	return mcp.Object("error", mcp.Object("code", mcp.Raw(`"MISSING_TOOL_SELECTION"`), "message", mcp.String(missingText),
		"examples", mcp.Raw(`["`+URI+`?tools=tool_name","`+URI+`?tools=tool1,tool2"]`)))
}

// missingNames is missing for a call of the gateway's tool: its parameter has another name.
func missingNames() mcp.Raw {
	return mcp.Object("error", mcp.Object("code", mcp.Raw(`"MISSING_TOOL_SELECTION"`), "message",
		mcp.String(missingNamesText),
		"examples", mcp.Raw(`[{"names":["tool_name"]},{"names":["tool1","tool2"]}]`)))
}

func tooMany() mcp.Raw {
	return mcp.Object("error", mcp.Object("code", mcp.Raw(`"TOO_MANY_TOOLS"`),
		"message", mcp.String("At most 50 tools are described at a time: select those that you are about to use.")))
}
