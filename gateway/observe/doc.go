// Package observe shows what the gateway does: one log line for each call.
//
// It owns what is said about a call and the log's writer. It leaves what a call
// means to the handlers below, and never looks at arguments or results. Each
// logger made by NewLogger has one goroutine, which writes; its close function
// waits for it.
package observe
