package mcp

import "strings"

// Skills have two spellings on the wire, which use the same method names: the SEP-2076
// proposal (the capability skills) and the extension of SEP-2640. Inside there is one
// record, an object with the members of both:
//
//	name         the skill's key: what policy calls it; where lists are merged, its public name
//	uri          of its SKILL.md, which ends in /SKILL.md
//	frontmatter  of its SKILL.md, verbatim, as JSON
//	resources    [{uri, digest, size}] of all its files, or "dynamic"
//
// and, where there is something to say, title, icons, description, version, tags,
// arguments, dependencies and _meta of SEP-2076. skills/list answers records. skills/get
// answers {"skill": record} to params with a uri, and to params with a name what SEP-2076
// calls GetSkillResult: instructions, description, dependencies, files.

// SkillsExtension is the extension of SEP-2640.
const SkillsExtension = "io.modelcontextprotocol/skills"

// SkillFile is the name of the file that makes a directory a skill.
const SkillFile = "SKILL.md"

// SkillScheme is the scheme of the URIs of skills.
const SkillScheme = "skill://"

// SkillIndex is the list of skills at servers that are older than the extension.
const SkillIndex = SkillScheme + "index.json"

// SkillRoot returns the URI of the directory of a SKILL.md; ok is false for any other URI.
func SkillRoot(uri string) (root string, ok bool) {
	root, ok = strings.CutSuffix(uri, "/"+SkillFile)
	return root, ok && root != "" && !strings.HasSuffix(root, "/")
}

// SkillPath returns the path of a skill in its server's namespace: its root without the
// scheme. It is the key of a skill that is known by a URI.
func SkillPath(root string) string {
	if _, path, found := strings.Cut(root, "://"); found {
		return path
	}
	return root
}

// SkillKey returns the member by which the params of skills/get name the skill, as written,
// and whether it is a URI. It is nil unless exactly one of uri and name is present.
func SkillKey(params Raw) (key Raw, byURI bool) {
	uri, hasURI := params.Member("uri")
	name, hasName := params.Member("name")
	switch {
	case hasURI == hasName:
		return nil, false
	case hasURI:
		return uri, true
	}
	return name, false
}

// DeclaresSkills reports whether a client or server declares the extension.
func DeclaresSkills(caps Raw) bool {
	extensions, _ := caps.Member("extensions")
	settings, _ := extensions.Member(SkillsExtension)
	return settings.IsObject()
}
