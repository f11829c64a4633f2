// Package apikey makes and verifies API keys, for callers without a browser such as CI and cron.
//
// It owns the form of a key, what the configuration says of keys (inline or in a file of their
// own) and the table in which a key is found. A key itself is nowhere: what is kept is its digest.
// It leaves to auth how a request with a key is answered, and to gateway/keyfile how entries get
// into a file. It starts no goroutines.
package apikey
