// Package safehttp is the one way out to the servers of OAuth: key sets, discovery,
// introspection, token endpoints.
//
// Many of their URLs do not come from the operator but from a document, whose author could
// make the gateway connect to hosts inside its network. So the origin of a URL decides: what
// the operator configured may be at any address, everything else has to be https at a public
// address. The address is checked when it is dialled, so no name in DNS gets around it.
//
// It owns what is dialled, what is followed (no redirects, no proxies), and the bounds of time
// and size. It leaves the meaning of answers to its callers. It starts no goroutines of its
// own; net/http keeps connections for a while, and Close gives up those that are idle.
package safehttp
