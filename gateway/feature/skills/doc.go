// Package skills gives each client skills in the form that it reads.
//
// There are two forms, with the same method names (mcp/skill.go): SEP-2076 and the
// extension of SEP-2640. The stages below deliver one record with the members of both. A
// client that declares the extension gets only the extension's members; any other client
// gets all members, since neither form forbids unknown ones. Dependencies of a skill are
// shown only as far as the caller may know of them.
//
// The work on skills is divided so that policy decides on every skill, and on every file of
// a skill, in one place:
//
//	upstream/skills  makes records of what a server says, upstream/skilldir of a directory;
//	                 both read files
//	gateway/catalog  merges records, gives them and their dependencies public names, and
//	                 knows which skill a URI is a file of, and so what policy decides on
//	policy           filters lists of skills and of resources, and decides on skills/get,
//	                 resources/read and resources/directory/read; the decision on a file is
//	                 that on its skill, and rules that deny the resource apply as well
//	this package     above policy: it receives only what the caller may know of
//
// It leaves pages, cursors and cache hints to gateway/catalog and gateway/front. It has no
// state and starts no goroutines.
package skills
