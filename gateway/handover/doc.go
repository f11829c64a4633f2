// Package handover lets the way of calls be replaced while calls are on it.
//
// It owns the handler that stands between gateway/front and the pipelines: a call goes
// the way that holds when it comes, and ends there. Calls that stand for as long as
// their client wants, subscriptions/listen, are handed over: they go on on the new way,
// and the client hears what looks different there. It leaves making ways, and closing
// what is only on an old one, to package gateway. It starts no goroutine.
package handover
