// Package sessions lists the sessions of clients at all replicas for operators, and ends one.
//
// It owns what a session looks like to operators and the questions between replicas about sessions. It
// leaves sessions themselves to the package session, who owns one to internal/cluster, and who may ask
// to gateway/admin. It starts no goroutines.
package sessions
