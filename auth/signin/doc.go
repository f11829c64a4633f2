// Package signin signs people in at an issuer of the gateway with their browser, and keeps their sessions.
//
// It owns the authorization code flow (flow.go) and the sessions of browsers (sessions.go). A flow
// ends with an access token for the gateway, which auth verifies like that of any client and which
// is then forgotten: so the person is the same caller as in policy. It leaves to its callers which
// pages there are and who may see them.
//
// It starts no goroutines.
package signin
