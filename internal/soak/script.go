package main

import (
	"context"
	"strings"
	"time"
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

// pause is how long to wait before each step.
func (s script) pause() time.Duration { return time.Duration(s.Pause) * time.Millisecond }

// wait waits for a time, or returns ctx's error.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// padding follows the nonce in the text of a result.
const padding = " all work and no play"

// result is the text that answers a script. answer is what its client said.
func (s script) result(answer string) string {
	text := s.Nonce + " " + answer
	return text + strings.Repeat(padding, s.Pad/len(padding))
}

// said is the text of an answer to a question with a nonce.
func said(nonce string) string { return "yes-" + nonce }
