package redisdb

import (
	"slices"
	"strings"
)

// Kind is one kind of keys in Redis, as replicas of all versions see it.
type Kind struct {
	// Prefix begins the keys, behind the prefix of the gateway. A colon ends it, or a brace.
	Prefix string
	// Version counts the formats of the kind, from 1. Version 1 has no mark in its keys: the releases that write it
	// know none. A value or a key of a later version says which one it is, so that older replicas see nothing of it.
	Version int
	// What is there, for people.
	What string
}

// Kinds returns all kinds of keys. A change of a format that replicas of the last release cannot read needs a new
// version here, with another prefix, such as "r2:", or a version in the value. docs/upgrading.md has the same list.
func Kinds() []Kind {
	return []Kind{
		{"h:", 1, "the owner of a session"},
		{"s:", 2, "a session; the version is in the record"},
		{"u:", 1, "the sessions of a user"},
		{"m:", 1, "event streams of a session"},
		{"e:", 1, "events of a session"},
		{"g:", 1, "definitions that a session was shown"},
		{"k:", 1, "what is kept of a session at servers"},
		{"l:", 1, "the lease of a replica"},
		{"n:", 1, "the names of replicas"},
		{"a:", 1, "an approval, or the round of one"},
		{"ai:", 1, "the approvals of a user"},
		{"b:", 1, "an allowance of a limit"},
		{"f:", 1, "a call that waits for an approver"},
		{"fv:", 1, "the verdict of an approver"},
		{"fi:", 1, "the calls that wait for approvers"},
		{"r:", 1, "a large result"},
		{"ri:", 1, "the large results, all and of a user"},
		{"rb:", 1, "how large they are"},
		{"rh:", 1, "recent records"},
		{"rp:", 1, "recent records of each replica"},
		{"accounts:", 1, "a user's account at a server"},
		{"account-locks:", 1, "who refreshes an account"},
		{"account-uses:", 1, "when an account was last used"},
		{"account-sign-ins:", 1, "sign-ins at servers, and the gateway's registrations there"},
		{"sign-ins-ended:", 1, "sign-ins that have ended"},
		{"people:", 1, "who has signed in at pages"},
		{"dpop:", 1, "proofs of bound tokens that were used"},
		{"oauth-begun:", 1, "users who are asked for consent"},
		{"oauth-codes:", 1, "codes and assertions, and which of them were used"},
		{"oauth-grants:", 1, "grants"},
		{"oauth-consents:", 1, "consents"},
		{"oauth-documents:", 1, "documents about clients"},
		{"oauth-keys:", 1, "signing keys"},
		{"acme:", 1, "certificates by ACME, and the account and the proofs for them"},
	}
}

// KindOf returns the kind of a key without the prefix of the gateway.
func KindOf(key string) (Kind, bool) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return strings.HasPrefix(key, k.Prefix) })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}
