package main

import (
	"context"
	"strings"
	"time"
)

// script tells a server what to do with a call. It travels in the call's arguments.
type script struct {
	Nonce    string `json:"nonce"`              // appears in everything that belongs to the call
	Progress int    `json:"progress,omitempty"` // number of progress notifications
	Ask      string `json:"ask,omitempty"`      // method of a question
	Pause    int    `json:"pause,omitempty"`    // milliseconds before each step
	Pad      int    `json:"pad,omitempty"`      // bytes of the result beside its content
	Touch    string `json:"touch,omitempty"`    // a resource to announce as updated
	End      string `json:"end,omitempty"`      // one of those below; "" answers
}

// Ends of a script other than an answer.
const (
	endFail = "fail" // a JSON-RPC error
	endHang = "hang" // until cancelled
	endDie  = "die"  // breaks the connection; a stdio process exits
)

// failCode is the code of the error of endFail, whose message is the nonce.
const failCode = 7

// pause returns the wait before each step.
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

// result returns the text that answers a script. answer is what the client said.
func (s script) result(answer string) string {
	text := s.Nonce + " " + answer
	return text + strings.Repeat(padding, s.Pad/len(padding))
}

// said returns the text that answers the question with a nonce.
func said(nonce string) string { return "yes-" + nonce }
