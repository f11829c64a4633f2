// Package safehttp is the one way out to the servers of OAuth: key sets, discovery,
// introspection, token endpoints.
//
// Many of their URLs were not written by the operator but found in a document, and
// whoever wrote that could make the gateway knock on doors inside of its network. So a
// URL is good by its provenance: origins that the operator configured may be at any
// address, everything else has to be https at a public address. The address is looked
// at when it is dialled, so that neither a name nor a change of it in DNS can help.
//
// It owns what is dialled, what is followed (no redirects, no proxies), and the bounds
// of time and size. It leaves what the answers mean to its callers. Connections are
// kept for a while; Close gives up those that are idle.
package safehttp
