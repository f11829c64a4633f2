// Package handover replaces the pipeline while calls are running.
//
// It owns the handler between gateway/front and the pipelines. A call goes to the current pipeline
// and ends there. Calls of subscriptions/listen, which last as long as their client wants, are
// handed over: they continue on the new pipeline, which tells the client what has changed. It
// leaves building pipelines, and closing what only an old one uses, to package gateway. It starts
// no goroutine.
package handover
