// Package disable lets operators disable a server while the gateway runs.
//
// It owns the switch of a server, which stands between the catalog and the server, so that nothing
// of the server is called by anybody. It leaves to gateway/catalog that the lists of a disabled server
// disappear. It starts no goroutines.
package disable
