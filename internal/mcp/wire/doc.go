// Package wire is how the inner language is written: the JSON-RPC envelope, event
// streams, lines of stdio, the Mcp-* headers, and what each revision of the
// protocol knows (Revision).
//
// It owns syntax and limits, and it is the only package that names revisions. It
// leaves what messages mean to gateway/front and upstream, which are the only ones
// to import it. It starts no goroutines and, but for the readers it is given, does
// no I/O.
//
// The scanner is strict where parsers are known to disagree, since what a gateway
// decides about must be what the server behind it reads: duplicate members, members
// that differ only in case and escaped names are refused in every object that the
// gateway reads (Scan for the envelope, CheckObject for params and the like), and
// nothing is ever decoded and encoded again. Text that is legal but odd passes
// unchanged: lone surrogate escapes, numbers beyond any float. Names that decide
// where a call goes, or whether it may, are checked by NameOK.
package wire
