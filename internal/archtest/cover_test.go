package archtest

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
)

// large is how many lines of code make a package whose own tests have to cover half of it.
const large = 300

// covered is what make test-all sets: the profile of all tests, each of which counts for its own package.
const covered = "GATEHOUSE_COVER"

// thin lists large packages with less than half covered by their own tests, and what covers the rest. They
// are taken out when that is no longer so.
var thin = map[string]string{
	"gateway/whatif":            "tests of gateway and of the command, on a whole gateway",
	"gateway/trial":             "tests of the command, and internal/e2e, on servers and issuers that answer",
	"gateway/front/exchange":    "tests of gateway/front, which write to its connections",
	"gateway/admin":             "tests of gateway, over the API of a whole gateway",
	"gateway/operate":           "tests of gateway, over the API of a whole gateway",
	"gateway/front/stateful":    "tests of gateway/front, which send requests of clients with sessions",
	"gateway/front/live":        "tests of gateway/front, for which it counts what runs",
	"gateway/feature/loadskill": "tests of gateway, over catalog and policy",
	"upstream/dialect":          "tests of the two dialects, of which it is what they share",
	"gateway/state":             "tests of the command, which move the state of whole gateways",

	"upstream/transport/stdio/sandbox": "its own tests, in processes that become programs in boxes",
}

// TestCovered checks what the other tests of make test-all cover.
func TestCovered(t *testing.T) {
	file := os.Getenv(covered)
	if file == "" {
		// A test cannot run all the others.
		t.Skip("it needs the profile of a run of the other tests: make test-all")
	}
	profile, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range uncovered(loadRepository(t), string(profile), thin) {
		t.Error(problem)
	}
}

// uncovered finds large packages of the product with less than half in a profile.
func uncovered(m *module, profile string, thin map[string]string) (problems []string) {
	all, run := make(map[string]int), make(map[string]int)
	for line := range strings.Lines(profile) {
		where, counts, _ := strings.Cut(line, " ")
		name, _, ok := strings.Cut(where, ".go:")
		var statements, times int
		if n, _ := fmt.Sscan(counts, &statements, &times); !ok || n != 2 {
			continue // the first line
		}
		dir := strings.TrimPrefix(path.Dir(name), modulePath+"/")
		all[dir] += statements
		if times > 0 {
			run[dir] += statements
		}
	}
	for _, p := range m.packages {
		lines := 0
		for _, f := range p.files {
			if l, ok := layerOf(p.dir); !f.test && (!ok || l.level != testLevel) {
				code, _ := codeLines(f.src)
				lines += code
			}
		}
		_, excepted := thin[p.dir]
		half := 2*run[p.dir] >= all[p.dir]
		switch {
		case lines > large && !half && !excepted:
			problems = append(problems, m.problem(p.dir, "its own tests run %d of its %d statements, want half: move tests here",
				run[p.dir], all[p.dir]))
		case half && excepted:
			problems = append(problems, m.problem(p.dir, "its own tests run half of it: take it out of internal/archtest/cover_test.go"))
		}
	}
	return problems
}

func TestUncovered(t *testing.T) {
	code := "package x\n" + strings.Repeat("var _ = 1\n", large)
	line := func(dir string, statements, times int) string {
		return fmt.Sprintf("%s/%s/a.go:1.1,2.2 %d %d\n", modulePath, dir, statements, times)
	}
	profile := "mode: set\n" + line("auth", 1, 1) + line("auth", 1, 0) + line("policy", 1, 7) + line("policy", 2, 0) +
		line("session", 5, 0) + line("upstream", 5, 0) + line("gateway", 1, 1)
	runRule(t, func(m *module) []string {
		return uncovered(m, profile, map[string]string{"session": "a test", "gateway": "a test"})
	}, []ruleTest{
		{"allowed", map[string]string{"auth/a.go": code, "session/a.go": code, "upstream/a.go": "package x\n",
			"internal/e2e/a.go": code}, nil},
		{"found", map[string]string{"policy/a.go": code, "gateway/a.go": code},
			[]string{"gateway: its own tests run half", "policy: its own tests run 1 of its 3 statements"}},
	})
}
