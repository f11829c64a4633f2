// Package useraccounts lists users' accounts at servers for operators, ends one, and tells replicas of
// changes.
//
// It owns these answers and the question between replicas. It leaves the accounts themselves to
// auth/vault, the pages where users sign in to auth/accounts, and who may ask to gateway/admin. It
// starts no goroutines.
package useraccounts
