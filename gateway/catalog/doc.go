// Package catalog is the merged view of all upstreams, and the last handler of the
// chain: it answers lists from memory and sends each call to the one upstream that
// it belongs to.
//
// It owns the public names and URIs, the cached lists with their cursors, the
// merged capabilities and instructions, and who is told about changes. It leaves
// how an upstream is reached and how long that may take to upstream, who may see
// or call what to policy, and how anything is written to gateway/front.
//
// What clients are shown is one immutable snapshot, built by a pure function
// (build) from what each upstream last said and swapped atomically. Run starts
// one goroutine for each upstream, which keeps what that upstream last said up to
// date, and one more while it listens to it; a subscriptions/listen call starts one
// for each upstream that it subscribes at. Each is waited for by who started it.
//
// Upstreams that see the user's own credential are asked on behalf of each user, when
// they call, by a goroutine that may outlive the call and that Run waits for; what
// they say is merged into a snapshot of that user's own.
//
// Nothing goes around policy: a call is handed on only to the target that policy has
// decided on and that the catalog finds for its name by itself.
package catalog
