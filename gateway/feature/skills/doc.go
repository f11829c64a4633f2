// Package skills gives each client the spelling of skills that it reads.
//
// There are two, with the same method names (mcp/skill.go): SEP-2076 and the extension of
// SEP-2640. What comes up from below is one record with the members of both. A client that
// declares the extension gets its members alone, any other one all of them: neither form
// forbids members that it does not know. What a skill depends on is told as far as the
// caller may know of it.
//
// The work on skills is divided so that policy decides on every skill, and on every file of
// one, in its one place:
//
//	upstream/skills  makes records of what a server says, and upstream/skilldir of what a
//	                 directory holds; they read files
//	gateway/catalog  merges records, gives them and what they depend on public names, knows
//	                 of which skill a URI is a file, and so what policy has to decide on
//	policy           filters lists of skills and of resources, and decides on skills/get,
//	                 resources/read and resources/directory/read; a file is decided on as
//	                 the skill that it is a part of, and by what is denied as a resource
//	this package     above policy: only what the caller may know of comes here
//
// It leaves pages, cursors and cache hints to gateway/catalog and gateway/front. It keeps
// nothing and starts no goroutines.
package skills
