// Package safehttp makes the HTTP requests to OAuth servers: for key sets, discovery,
// introspection and tokens.
//
// Many of their URLs come not from the operator but from a document: its author could make the
// gateway connect to hosts inside its network. So the origin of a URL decides: what the operator
// configured may be at any address, everything else must be https at a public address. The address
// is checked when it is dialled, so DNS cannot get around the check, or before a proxy gets it.
//
// It owns what is dialled, what is followed (no redirects), and the limits of time and size. It
// leaves the meaning of answers to its callers, proxies and certificates to internal/egress. It starts no goroutines
// of its own; net/http keeps idle connections until Close.
package safehttp
