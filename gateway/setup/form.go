package setup

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	// programName matches the begin of a line with a command.
	programName = regexp.MustCompile(`^[\pL\pN_.~@/\\][\pL\pN_.~@/\\:+ ()-]*$`)
	// sentence matches the end of a line of prose.
	sentence = regexp.MustCompile(`\pL[.:?!,;]$`)
	tomlHead = regexp.MustCompile(`(?m)^\s*\[+\s*[\w."'-]+`)
	yamlLine = regexp.MustCompile(`^(?:- )?["']?[\w.-]+["']?:(?:\s|$)|^- |^---`)
	iniLine  = regexp.MustCompile(`^[\w."'-]+\s+=`)
)

// shellOnly are words of a line that only a shell understands.
var shellOnly = []string{"&&", "||", "|", ";", ">", ">>", "<", "&", "export", "cd", "set", "source", "sudo", "echo"}

// unfenced returns the content of the first fence of a document in Markdown.
func unfenced(text string) string {
	before, rest, has := strings.Cut("\n"+text, "\n```")
	if !has || strings.TrimSpace(before) != "" {
		return text
	}
	_, inside, _ := strings.Cut(rest, "\n")
	inside, _, _ = strings.Cut(inside, "\n```")
	return strings.TrimSpace(inside)
}

// notALine returns the error for a line that is neither a URL nor a command, nil if it is one.
func notALine(line string, words []string) error {
	shell := slices.IndexFunc(words, func(word string) bool { return slices.Contains(shellOnly, word) })
	for len(words) > 1 && isAssignment(words[0]) {
		words = words[1:]
	}
	looks := ""
	switch {
	case strings.HasPrefix(line, "<"):
		looks = "HTML or XML"
	case strings.HasPrefix(line, "[") || strings.HasPrefix(line, "{"):
		looks = "JSON that is not an object with servers"
	case yamlLine.MatchString(line):
		looks = "YAML, or a list for people"
	case iniLine.MatchString(line):
		looks = "TOML or INI without [mcp_servers.NAME]"
	case shell >= 0:
		looks = "a script: " + words[shell] + " is for a shell"
	case sentence.MatchString(line):
		looks = "a sentence"
	case !isURL(words[0]) && (!programName.MatchString(words[0]) || utf8.RuneCountInString(words[0]) > 200):
		looks = "no program"
	default:
		return nil
	}
	return errors.New(looks)
}
