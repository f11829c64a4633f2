package main

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// Keys of what a request's context has.
type (
	connectionKey struct{}
	answerKey     struct{}
)

func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// answer is the answer to a request. It tells when parts of it have been sent.
type answer struct {
	http.ResponseWriter
	sent chan struct{} // has an element for each part
}

func (a *answer) Flush() {
	if err := http.NewResponseController(a.ResponseWriter).Flush(); err != nil {
		return // the client has left
	}
	select {
	case a.sent <- struct{}{}:
	default: // more parts than a tool waits for
	}
}

// watched lets tools wait for parts of their answer.
func watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w, sent: make(chan struct{}, 16)}
		next.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), answerKey{}, a)))
	})
}

// waitSent waits until some parts of a call's answer have been sent.
func waitSent(ctx context.Context, parts int) error {
	a, ok := ctx.Value(answerKey{}).(*answer)
	if !ok {
		return errors.New("the call did not come over HTTP")
	}
	for range parts {
		select {
		case <-a.sent:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// breakOff closes the connection of a call as soon as a part of the answer has been sent, and waits until
// the server knows.
func breakOff(ctx context.Context) error {
	conn, ok := ctx.Value(connectionKey{}).(net.Conn)
	if !ok {
		return errors.New("the call has no connection of its own")
	}
	if err := waitSent(ctx, 1); err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
