package fit

import (
	"fmt"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxValues bounds the values of a completion (2026-07-28 server/utilities/completion).
const maxValues = 100

var (
	events = map[string]Shape{
		mcp.NoteProgress: {Is("progress", isNumber, "is no number").Needed(), Is("total", isNumber, "is no number"),
			Text("message"), Object("_meta")},
		mcp.NoteMessage: {
			OneOf("level", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency").Needed(),
			Text("logger"), Object("_meta"),
		},
	}
	completed = Shape{{name: "completion", value: completion, needed: true}, Object("_meta")}
	values    = Shape{{name: "values", value: listOf(text), needed: true, instead: mcp.Raw("[]")},
		{name: "total", value: total}, Boolean("hasMore")}
)

// Event makes the params of a notification fit. The error says why clients would refuse it.
func Event(method string, params mcp.Raw) (mcp.Raw, error) {
	shape, checked := events[method]
	if !checked {
		return params, nil
	}
	return shape.Fit(params, "logger") // which says what upstream speaks
}

// Completion makes the result of a completion fit, cut to as many values as there may be. The error says
// why clients would refuse it.
func Completion(result mcp.Raw) (mcp.Raw, error) {
	result, err := completed.Fit(result)
	if err != nil {
		return nil, fmt.Errorf("the completion %w", err)
	}
	return result, nil
}

func completion(value mcp.Raw) (mcp.Raw, error) {
	value, err := values.Fit(value)
	if err != nil {
		return nil, err
	}
	n := 0
	first := value.At("values").Filter(func(element mcp.Raw) mcp.Raw {
		if n++; n > maxValues {
			return nil
		}
		return element
	})
	if n <= maxValues {
		return value, nil
	}
	return value.Edit(mcp.Edit{Name: "values", Value: first}, mcp.Edit{Name: "hasMore", Value: mcp.Raw("true")}), nil
}

// total leaves out a number of values that is not a whole number.
func total(value mcp.Raw) (mcp.Raw, error) {
	if !isInteger(value) {
		return nil, nil
	}
	return value, nil
}

func isNumber(value mcp.Raw) bool {
	_, err := strconv.ParseFloat(string(value), 64)
	return err == nil && value[0] <= '9' // which neither infinity nor text does
}
