package mcptest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The methods of questions that Question makes.
const (
	Elicitation = "elicitation/create"
	Sampling    = "sampling/createMessage"
)

// Question returns the params of a request for an answer from the user or a model. The text
// identifies the question.
func Question(method, text string) (params string) {
	if method == Elicitation {
		return fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`, text)
	}
	return fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}],"maxTokens":1}`, text)
}

// QuestionText returns the text of such a request as a client of the gateway gets it: with the
// server's name.
func QuestionText(params json.RawMessage) string {
	var asked struct {
		Message  string
		Messages []struct{ Content struct{ Text string } }
	}
	if json.Unmarshal(params, &asked) != nil {
		return ""
	}
	if len(asked.Messages) == 1 {
		return asked.Messages[0].Content.Text
	}
	_, text, _ := strings.Cut(asked.Message, " asks: ")
	return text
}

// Answer returns the result that answers a Question with a text.
func Answer(method, text string) (result string) {
	if method == Elicitation {
		return fmt.Sprintf(`{"action":"accept","content":{"a":%q}}`, text)
	}
	return fmt.Sprintf(`{"role":"assistant","model":"m","content":{"type":"text","text":%q}}`, text)
}

// AnswerText returns the text in such a result.
func AnswerText(result json.RawMessage) string {
	var given struct {
		Content struct{ A, Text string }
	}
	if json.Unmarshal(result, &given) != nil {
		return ""
	}
	return given.Content.A + given.Content.Text
}
