package wire

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// rev20250618 lacks icons, the modes of elicitation, tools in sampling, tasks and
// priming events.
var rev20250618 = Revision{
	Name:          "2025-06-18",
	Stateful:      true,
	VersionHeader: true,
	next:          &rev20251125,
	clients: []capability{
		{name: "experimental", any: true},
		{name: "roots", members: []string{"listChanged"}},
		{name: "sampling"},
		{name: "elicitation", unless: "url", base: "form"},
	},
	servers: []capability{
		{name: "experimental", any: true},
		{name: "logging", any: true},
		{name: "completions", any: true},
		{name: "prompts", any: true},
		{name: "resources", any: true},
		{name: "tools", any: true},
		{name: "skills", any: true}, // SEP-2076
	},
	item:     item20250618,
	result:   result20250618,
	identity: identity20250618,
	error:    error20250618,
	ask:      ask20250618,
	answer:   answer20250618,
}

func item20250618(listMethod string, item mcp.Raw) mcp.Raw {
	if listMethod == mcp.MethodToolsList {
		item = without(item, "execution")
	}
	return without(item, "icons")
}

func result20250618(method string, result mcp.Edited) mcp.Edited {
	return inBlocks(method, result, func(block mcp.Raw) mcp.Raw {
		if blockType(block) != "resource_link" {
			return block
		}
		return without(block, "icons")
	})
}

func identity20250618(info mcp.Raw) mcp.Raw {
	return without(info, "description", "icons", "websiteUrl")
}

// error20250618 keeps the message of an error: this revision cannot send the user to a URL.
func error20250618(_ string, e *mcp.Error) *mcp.Error {
	if e.Code == mcp.CodeURLElicitation {
		return upstreamCode(e)
	}
	return e
}

func ask20250618(method string, params mcp.Raw) (mcp.Raw, error) {
	switch method {
	case mcp.MethodElicit:
		return form20250618(params)
	case mcp.MethodCreateMessage:
		_, tools := params.Member("tools")
		_, choice := params.Member("toolChoice")
		if tools || choice {
			return nil, errors.New("sampling knows no tools in this revision")
		}
		return inMessages(params, func(message mcp.Raw) (mcp.Raw, error) { return singleBlock(without(message, "_meta")) })
	}
	return params, nil
}

// form20250618 writes a form for this revision. It has no modes, an older name for a choice
// of titled values, and defaults for booleans only. Fields that it lacks are left out if the user
// need not fill them in.
func form20250618(params mcp.Raw) (mcp.Raw, error) {
	if IsURLMode(params) {
		return nil, errors.New("this revision cannot send the user to a URL")
	}
	var err error
	params = inMember(without(params, "mode"), "requestedSchema", func(schema mcp.Raw) mcp.Raw {
		needed := make(map[string]bool)
		schema.At("required").Elements(func(name mcp.Raw) bool {
			needed[name.Text()] = true
			return true
		})
		var lacking []string
		property := func(name []byte, p mcp.Raw) mcp.Raw {
			changed, failed := property20250618(p)
			if failed == nil {
				return changed
			}
			if needed[mcp.Raw(`"`+string(name)+`"`).Text()] {
				err = failed
			}
			lacking = append(lacking, string(name))
			return p
		}
		return inMember(without(schema, "$schema"), "properties", func(properties mcp.Raw) mcp.Raw {
			properties = properties.Map(property)
			return without(properties, lacking...)
		})
	})
	if err != nil {
		return nil, err
	}
	return params, nil
}

func property20250618(p mcp.Raw) (mcp.Raw, error) {
	kind, _ := p.Member("type")
	switch kind.Text() {
	case "array":
		return nil, errors.New("a form has no choice of several values in this revision")
	case "boolean":
		return p, nil
	}
	p = without(p, "default")
	options, ok := p.Member("oneOf")
	if !ok {
		return p, nil
	}
	values, names, usable := mcp.Raw{'['}, mcp.Raw{'['}, options.IsArray()
	options.Elements(func(option mcp.Raw) bool {
		value, _ := option.Member("const")
		name, _ := option.Member("title")
		if _, usable = value.StringValue(); !usable {
			return false
		}
		if _, titled := name.StringValue(); !titled {
			name = value
		}
		values, names = appendElement(values, value), appendElement(names, name)
		return true
	})
	if !usable {
		return nil, errors.New("a form has no choice but of strings in this revision")
	}
	return p.Edit(mcp.Edit{Name: "oneOf"},
		mcp.Edit{Name: "enum", Value: append(values, ']')}, mcp.Edit{Name: "enumNames", Value: append(names, ']')}), nil
}

func answer20250618(method string, answer mcp.Raw) (mcp.Raw, error) {
	switch method {
	case mcp.MethodElicit:
		content, _ := answer.Member("content")
		var err error
		content.Members(func(_ []byte, value mcp.Raw) bool {
			if value.IsArray() {
				err = errors.New("a form has no choice of several values in this revision")
			}
			return err == nil
		})
		return answer, err
	case mcp.MethodCreateMessage:
		return singleBlock(answer)
	}
	return answer, nil
}
