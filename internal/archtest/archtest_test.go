package archtest

import (
	"strings"
	"testing"
	"testing/fstest"
)

// rules are all rules; the name is that of the subtest.
var rules = []struct {
	name  string
	check func(*module) []string
}{
	{"every Go file can be parsed", func(m *module) []string { return m.broken }},
	{"imports follow the layers", checkLayers},
	{"the cluster is for the front", checkReserved},
	{packageSize.name, packageSize.check},
	{circleSize.name, circleSize.check},
	{typeSpread.name, typeSpread.check},
	{interfaceSize.name, interfaceSize.check},
	{"verbs for beginnings and ends", checkVerbs},
	{"maps by sessions are in home", checkSessionMaps},
	{"no stage looks at a dead context", checkDeadContext},
	{"small packages have several users", checkSmall},
	{"third-party imports stay in their places", checkThirdParty},
	{"client_golang only in metrics.go", checkMetricsFiles},
	{"one comment a package", checkPackageComments},
	{"what is exported has a comment", checkComments},
	{"names that say nothing", checkNames},
	{"no init", checkInit},
	{"no mutable package variables", checkVariables},
	{"files stay short", checkFileSize},
	{"revisions are named in wire only", checkRevisions},
	{"tests do not sleep", checkSleep},
	{"skips have a reason", checkSkip},
	{"the top level holds what it should", checkTopLevel},
	{"no paths of a workplace, and no labels", checkPaths},
	{"pages quote what the code says", checkQuotes},
	{"pages name tests that exist", checkProofs},
	{"only policy decides", checkDecided},
	{"the guard stands directly above the catalog", checkPipeline},
	{"nothing gets around the pipeline", checkHandles},
	{"statuses of errors are for refuse", checkStatuses},
	{"few functions among dependencies", checkFunctions},
	{"errors have names", checkErrorsNamed},
	{"warnings have names", checkWarningsNamed},
	{"a caller's token stays with auth", checkCallerToken},
}

func TestRepository(t *testing.T) {
	m := loadRepository(t)
	if len(m.packages) < 5 {
		t.Fatalf("only %d packages found: the loader is broken", len(m.packages))
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, problem := range rule.check(m) {
				t.Error(problem)
			}
		})
	}
}

// ruleTest is a small module and the problems that a rule must find there. Each element of
// want lists parts of one problem, in order. An empty want means no problem.
type ruleTest struct {
	name  string
	files map[string]string
	want  []string
}

// runRule tests that a rule finds exactly the expected problems.
func runRule(t *testing.T, check func(*module) []string, tests []ruleTest) {
	t.Helper()
	failed := false
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := make(fstest.MapFS)
			for name, src := range tt.files {
				root[name] = &fstest.MapFile{Data: []byte(src)}
			}
			m, err := load(root, nil)
			if err != nil || m.broken != nil {
				t.Fatalf("the fixture is broken: %v %v", err, m.broken)
			}
			got := check(m)
			if len(got) != len(tt.want) {
				t.Fatalf("got %d problems, want %d:\n%s", len(got), len(tt.want), strings.Join(got, "\n"))
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("problem %d: got %q, want it to contain %q", i, got[i], want)
				}
			}
		})
		failed = failed || tt.want != nil
	}
	if !failed {
		t.Error("no fixture breaks the rule")
	}
}

func TestBrokenFileIsReported(t *testing.T) {
	m, err := load(fstest.MapFS{"auth/a.go": {Data: []byte("package auth\nfunc {")}}, nil)
	if err != nil || len(m.broken) != 1 || !strings.Contains(m.broken[0], "auth/a.go:2") {
		t.Errorf("got %q, %v", m.broken, err)
	}
}
