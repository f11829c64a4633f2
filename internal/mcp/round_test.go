package mcp

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestRound(t *testing.T) {
	server := NewRound(FrameServer, "")
	asked, counted := server.Push(FrameAsked, "a"), server.Push(FrameCounted, "b")
	if asked.Top() != (Frame{FrameAsked, "a"}) || counted.Top() != (Frame{FrameCounted, "b"}) || len(server) != 1 {
		t.Errorf("two rounds above one share memory: %v, %v, %v", asked, counted, server)
	}
	if _, same, ok := asked.Pop(FrameCounted); ok || !reflect.DeepEqual(same, asked) {
		t.Errorf("a frame of another kind was taken off: %v", same)
	}
	value, below, ok := asked.Pop(FrameAsked)
	if !ok || value != "a" || !reflect.DeepEqual(below, server) {
		t.Errorf("got %q, %v, %v", value, below, ok)
	}
	below.Push(FrameSignIn, "c")
	if asked.Top().Value != "a" {
		t.Errorf("a round was changed: %v", asked)
	}
	var again Round
	if err := json.Unmarshal([]byte(asked.String()), &again); err != nil || !reflect.DeepEqual(again, asked) {
		t.Errorf("it comes back as %v, %v", again, err)
	}
	if _, below, ok = below.Pop(FrameServer); !ok || len(below) != 0 || below.String() != "" || below.Top() != (Frame{}) {
		t.Errorf("the last frame leaves %v", below)
	}
}
