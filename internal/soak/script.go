package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// script is what a call has its server do. It travels in the call's arguments.
type script struct {
	Nonce    string `json:"nonce"`              // comes back in everything that belongs to the call
	Progress int    `json:"progress,omitempty"` // how often it reports
	Ask      string `json:"ask,omitempty"`      // the method of a question
	Pause    int    `json:"pause,omitempty"`    // before each step, milliseconds
	Pad      int    `json:"pad,omitempty"`      // bytes of the result beside its content
	Touch    string `json:"touch,omitempty"`    // a resource that is said to be updated
	End      string `json:"end,omitempty"`      // one of those below; "" answers
}

// Ends of a script other than an answer.
const (
	endFail = "fail" // a JSON-RPC error
	endHang = "hang" // until cancelled
	endDie  = "die"  // breaks the connection; a process over stdio ends
)

// failCode is that of the error of endFail, which has the nonce as its message.
const failCode = 7

const (
	elicitation = "elicitation/create"
	sampling    = "sampling/createMessage"
)

// padding follows the nonce in the text of a result.
const padding = " all work and no play"

// result is the text that answers a script. answer is what its client said.
func (s script) result(answer string) string {
	text := s.Nonce + " " + answer
	return text + strings.Repeat(padding, s.Pad/len(padding))
}

// question is what a server asks, with the nonce of its call.
func question(method, nonce string) string {
	if method == elicitation {
		return fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`, nonce)
	}
	return fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}],"maxTokens":1}`, nonce)
}

// nonceOf finds the nonce in the params of a question.
func nonceOf(params json.RawMessage) string {
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
	_, text, _ := strings.Cut(asked.Message, " asks: ") // the gateway says who asks
	return text
}

// answer is what a client answers to a question with a nonce.
func answer(method, nonce string) string {
	if method == elicitation {
		return fmt.Sprintf(`{"action":"accept","content":{"a":%q}}`, said(nonce))
	}
	return fmt.Sprintf(`{"role":"assistant","model":"m","content":{"type":"text","text":%q}}`, said(nonce))
}

// said is the text of an answer.
func said(nonce string) string { return "yes-" + nonce }

// saidIn finds the text in an answer.
func saidIn(result json.RawMessage) string {
	var given struct {
		Content struct{ A, Text string }
	}
	if json.Unmarshal(result, &given) != nil {
		return ""
	}
	return given.Content.A + given.Content.Text
}
