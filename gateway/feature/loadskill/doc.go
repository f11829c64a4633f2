// Package loadskill gives skills to hosts that know no form of them, by a plain tool.
//
// It is one stage of the pipeline, above limits and policy: it owns the tool load_skill,
// which is listed for whoever may see a skill, and answers its calls. All that it tells of
// skills it has from the caller's own skills/list, and what it loads from resources/read,
// both made down the chain: policy decides on the skill, asks the user and counts as it
// does for a client that reads the file itself. It leaves what a skill is to internal/skillmd and
// gateway/catalog. It starts no goroutines.
package loadskill
