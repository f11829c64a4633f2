// Package hooks lets guardrails inspect the content of calls. They see the arguments before they go
// to a server, and everything that comes back before it goes to a client.
//
// It is one stage of the pipeline, directly above the catalog, so everything passes it: tools,
// prompts, resources, skills, completions and tasks, with their results, errors, questions,
// answers, and messages in mid-call. It owns the choice of hooks for a call, what they do, and what
// counts as content of a message. It leaves to policy whether the caller may make the call, to the
// stages above what becomes of a result, and definitions in lists to gateway/pinning. It starts no
// goroutines.
package hooks
