package fit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

var (
	icons = Objects("icons", Shape{
		Text("src").Needed(), Text("mimeType"), Texts("sizes"), OneOf("theme", "light", "dark"),
	})
	// annotated are the annotations of resources and templates.
	annotated = shaped("annotations", Shape{
		List("audience", oneOf([]string{"user", "assistant"})),
		Is("priority", func(value mcp.Raw) bool {
			n, err := strconv.ParseFloat(string(value), 64)
			return err == nil && n >= 0 && n <= 1
		}, "is no number from 0 to 1"),
		{name: "lastModified", value: moment},
	})
	schema = Shape{
		{name: "type", value: oneOf([]string{"object"}), needed: true, instead: mcp.Raw(`"object"`)},
		Text("$schema"), Texts("required"), {name: "properties", value: properties},
	}
	items = map[string]Shape{
		mcp.MethodToolsList: {
			Text("name").Needed(), Text("title"), Text("description"), icons, Object("_meta"),
			{name: "inputSchema", value: func(value mcp.Raw) (mcp.Raw, error) { return schema.Fit(value) }, needed: true,
				instead: mcp.Raw(`{"type":"object"}`)},
			{name: "outputSchema", value: outputSchema},
			shaped("annotations", Shape{
				Text("title"), Boolean("readOnlyHint"), Boolean("destructiveHint"), Boolean("idempotentHint"),
				Boolean("openWorldHint"),
			}),
			shaped("execution", Shape{OneOf("taskSupport", "required", "optional", "forbidden")}),
		},
		mcp.MethodPromptsList: {
			Text("name").Needed(), Text("title"), Text("description"), icons, Object("_meta"),
			Objects("arguments", Shape{Text("name").Needed(), Text("title"), Text("description"), Boolean("required")}),
		},
		mcp.MethodResourcesList: {
			Text("uri").Needed(), Text("name").Needed(), Text("title"), Text("description"), Text("mimeType"), icons, annotated,
			Object("_meta"),
			Is("size", isInteger, "is no integer that every client can read"),
		},
		mcp.MethodResourceTemplatesList: {
			Text("uriTemplate").Needed(), Text("name").Needed(), Text("title"), Text("description"), Text("mimeType"), icons,
			annotated, Object("_meta"),
		},
		mcp.MethodSkillsList: { // SEP-2076 5
			Text("name").Needed(), Text("title"), Text("description"), Text("version"), icons, Object("_meta"), Texts("tags"),
			Objects("arguments", Shape{Text("name").Needed(), Text("title"), Text("description"), Boolean("required")}),
		},
	}
)

// Item makes the definition of an item of a list fit. The error says why clients would refuse it.
func Item(listMethod string, item mcp.Raw) (mcp.Raw, error) {
	item, err := parsable(item)
	if err != nil {
		return nil, fmt.Errorf("its definition %w", err)
	}
	key := mcp.ItemKey(listMethod)
	if key != "name" && item.IsObject() && item.At("name").IsNull() {
		// A resource or template is called by its title, or by the end of its URI.
		item = item.Edit(mcp.Edit{Name: "name", Value: mcp.String(cmp.Or(item.At("title").Text(),
			path.Base(item.At(key).Text())))})
	}
	item, err = items[listMethod].Fit(item, key)
	if err != nil {
		return nil, fmt.Errorf("its definition %w", err)
	}
	return item, nil
}

func shaped(name string, s Shape) Member {
	return Member{name: name, value: func(value mcp.Raw) (mcp.Raw, error) { return s.Fit(value) }}
}

// properties makes the schemas of properties fit. Some clients require objects, though JSON Schema
// has true and false, too.
func properties(value mcp.Raw) (mcp.Raw, error) {
	if !value.IsObject() {
		return nil, errors.New("is no object")
	}
	var err error
	value = value.Map(func(name []byte, property mcp.Raw) mcp.Raw {
		switch {
		case property.IsObject():
		case property.IsNull(), property.IsTrue():
			return mcp.Raw("{}")
		case string(property) == "false":
			return mcp.Raw(`{"not":{}}`)
		default:
			err = fmt.Errorf("has no schema for %.80q", name)
		}
		return property
	})
	return value, err
}

// outputSchema makes the schema of a tool's output fit, which need not be an object.
func outputSchema(value mcp.Raw) (mcp.Raw, error) {
	if value.At("type").Text() == "object" {
		return schema.Fit(value)
	}
	return Shape{Text("$schema")}.Fit(value)
}

// moment leaves out a time that is not written as some clients require.
func moment(value mcp.Raw) (mcp.Raw, error) {
	if _, err := text(value); err != nil {
		return nil, err
	}
	// Parse allows a comma.
	if _, err := time.Parse(time.RFC3339, value.Text()); err != nil || bytes.IndexByte(value, ',') >= 0 {
		return nil, nil
	}
	return value, nil
}

func isInteger(value mcp.Raw) bool {
	const exact = 1 << 53 // beyond it, some clients round
	n, err := strconv.ParseInt(string(value), 10, 64)
	return err == nil && n > -exact && n < exact
}
