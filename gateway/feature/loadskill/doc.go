// Package loadskill gives skills to hosts that know neither form of skills, through a plain
// tool.
//
// It is one stage of the pipeline, above limits and policy. It owns the tool load_skill,
// which is listed for every caller who may see a skill, and answers calls of it. It learns
// of skills only from the caller's own skills/list, and loads files with resources/read,
// both sent down the chain: policy decides on the skill, asks the user and counts as it
// does for a client that reads the file itself. It leaves what a skill is to
// internal/skillmd and gateway/catalog. It starts no goroutines.
package loadskill
