// Package catalog merges all upstreams into one view. It is the last handler of the chain: it
// answers lists from memory and sends each call to the one upstream that it belongs to.
//
// It owns the public names and URIs, the cached lists with their cursors, the merged
// capabilities and instructions, and the notification of changes. It leaves how an upstream
// is reached, and how long that may take, to upstream; who may see or call what to policy;
// and all encoding to gateway/front.
//
// Clients see one immutable snapshot, which a pure function (build) makes from the last state of each
// upstream, and which is swapped atomically. Run starts one goroutine for each upstream, which keeps
// that upstream's state up to date, one more while it listens to the upstream, and one that makes the
// snapshots, of all states that arrived since the last one. A subscriptions/listen call starts one for
// each upstream that it subscribes at; it begins, and passes events on, in another one. Each
// goroutine's starter waits for it.
//
// Clients of a class, of a user and in a session may see other lists: each is an audience, laid over
// what others see. Upstreams that get the user's own credential are asked on behalf of each user, when
// the user calls, by a goroutine that may outlive the call and that Run waits for. A Lens shows what
// the caller of one call sees; all stages of the pipeline ask it.
//
// The files are layers. Names and lists (names.go to audience.go) know no catalog; watching (catalog.go,
// watch.go, users.go, session_lists.go) keeps them up to date; lens.go finds names in them; router.go
// and listen.go answer calls.
//
// Nothing bypasses policy: a call is passed on only if the target that policy has decided
// on is the one that the catalog finds for the call's name.
package catalog
