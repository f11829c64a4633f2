// Package useraccounts is what operators see of users' own accounts at servers, how they end one, and
// how replicas hear that an account has changed.
//
// It owns these answers and the question between replicas. It leaves the accounts themselves to
// auth/vault, the pages where users sign in to auth/accounts, and who may ask to gateway/admin. It
// starts no goroutines.
package useraccounts
