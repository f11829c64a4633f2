// Package sessionlists tracks clients' own sessions at servers that show other lists than usual, and when
// these have to be fetched.
//
// A server may add a tool to one session, and may tell that session of it. The package
// owns what is remembered of such sessions, with its bounds, and the rule when their lists are
// outdated:
//
//   - The server has told the session that a list has changed: that list.
//   - A stream was lost on which the server may have told it: the lists that it would tell of.
//   - A call of a tool was answered, and the server would not tell, or nobody would hear it: the
//     lists that the server would not tell of. But if the last fetches after calls of that tool
//     have shown nothing new (patience), only after every second of its calls, then after every
//     fourth, and so on (mostSkipped).
//
// An outdated list is fetched in that session when its client lists, calls a name that nobody
// knows, or listens and was told. The package leaves fetching, and what a difference is, to
// gateway/catalog. It starts no goroutine.
package sessionlists
