// Package operate lets operators see and change a running gateway: its configuration, servers,
// sessions and accounts.
//
// It owns the answers about each of these, keeping secrets out of them, the switch that disables a server,
// the timeline of each server, and the questions between replicas. It leaves who may ask to gateway/admin,
// texts to gateway/configtext, applying a configuration and reaching a server to gateway, and the things
// themselves to gateway/config, upstream, session and auth/vault. It starts no goroutines.
//
//	configuration.go  state, rules, text, history, drafts and saving
//	servers.go        actions on servers and pins; shown.go and sizes.go are how servers look
//	book.go           the timelines of servers
//	switch.go         what disables a server
//	sessions.go       the sessions of clients at all replicas
//	accounts.go       the accounts of users at servers
package operate
