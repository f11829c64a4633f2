package wire

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Questions go from a server to a client, and their answers back. In between both are in
// the inner language, so each edge converts only to and from it.

// Ask returns the params of a question for a client of this revision: the same bytes when
// nothing has to change. An error names what the revision cannot express; then the question
// must not be asked.
func (r *Revision) Ask(method string, params mcp.Raw) (mcp.Raw, error) {
	if r.next != nil {
		var err error
		if params, err = r.next.Ask(method, params); err != nil {
			return nil, err
		}
	}
	if r.ask != nil {
		return r.ask(method, params)
	}
	return params, nil
}

// Answer returns a client's answer to a question for a server of this revision: the same
// bytes when nothing has to change. An error names what the revision cannot express.
func (r *Revision) Answer(method string, answer mcp.Raw) (mcp.Raw, error) {
	if r.next != nil {
		var err error
		if answer, err = r.next.Answer(method, answer); err != nil {
			return nil, err
		}
	}
	if r.answer != nil {
		return r.answer(method, answer)
	}
	return answer, nil
}

// ValidAnswer reports whether an answer has the form that every server expects. Other
// answers are not passed on.
func ValidAnswer(method string, answer mcp.Raw) bool {
	if !answer.IsObject() {
		return false
	}
	switch method {
	case mcp.MethodElicit:
		action, _ := answer.Member("action")
		content, hasContent := answer.Member("content")
		switch action.Text() {
		case "accept", "decline", "cancel":
			return !hasContent || content.IsObject() || content.IsNull()
		}
		return false
	case mcp.MethodCreateMessage:
		content, _ := answer.Member("content")
		role, _ := answer.Member("role")
		model, _ := answer.Member("model")
		return (content.IsObject() || content.IsArray()) && role.Text() != "" && model.Text() != ""
	case mcp.MethodRootsList:
		roots, _ := answer.Member("roots")
		return roots.IsArray()
	}
	return false
}

// IsURLMode reports whether the params of an elicitation send the user to a URL.
func IsURLMode(params mcp.Raw) bool {
	mode, _ := params.Member("mode")
	return mode.Text() == "url"
}

// inMessages changes each message of a sampling request until the first error.
func inMessages(params mcp.Raw, change func(message mcp.Raw) (mcp.Raw, error)) (mcp.Raw, error) {
	var err error
	params = inMember(params, "messages", func(messages mcp.Raw) mcp.Raw {
		return inElements(messages, func(message mcp.Raw) mcp.Raw {
			if err != nil {
				return message
			}
			changed, failed := change(message)
			if err = failed; err != nil {
				return message
			}
			return changed
		})
	})
	return params, err
}

// singleBlock replaces an array of content blocks by its only block, in a message or in the
// answer to a question.
func singleBlock(message mcp.Raw) (mcp.Raw, error) {
	content, _ := message.Member("content")
	if !content.IsArray() {
		return message, blockError(content)
	}
	var only mcp.Raw
	count := 0
	content.Elements(func(block mcp.Raw) bool {
		only = block
		count++
		return count < 2
	})
	if count != 1 {
		return nil, errors.New("a message holds one content block in this revision")
	}
	return message.With("content", only), blockError(only)
}

// blockError refuses the blocks that came with tools in sampling.
func blockError(block mcp.Raw) error {
	switch blockType(block) {
	case "tool_use", "tool_result":
		return errors.New("sampling knows no tools in this revision")
	}
	return nil
}
