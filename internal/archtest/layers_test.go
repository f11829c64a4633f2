package archtest

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layer lists what the packages of one directory may import besides the standard library.
// Test files may import anything in go.mod.
type layer struct {
	dir   string   // from the root; a last element of * stands for any one name
	ours  []string // directories from the root; "0-4" for all of these levels, "*" for all
	third []string // prefixes of import paths; "*" for all
	level int
}

// failures is the package with the names of failures. Every package may import it.
const failures = "internal/failure"

// testLevel is the level of packages for tests: no other package may import them.
const testLevel = 9

// layers is the architecture, lowest level first. A package without a row fails the test:
// add a row and give the reason in the change, or put the code where it belongs.
var layers = []layer{
	{level: 0, dir: failures},
	{level: 0, dir: "internal/trail"},
	{level: 0, dir: "internal/loopback"},
	{level: 0, dir: "internal/retryafter"},
	{level: 0, dir: "internal/problems"},
	{level: 0, dir: "internal/redact"},
	// cpu for which instructions the processor has
	{level: 0, dir: "internal/jsonstring", third: []string{"golang.org/x/sys/cpu"}},
	{level: 0, dir: "internal/mcp", ours: []string{"internal/jsonstring", "internal/trail"}}, // a call carries its trail
	{level: 1, dir: "internal/mcp/wire", ours: []string{"internal/jsonstring", "internal/mcp"}},
	{level: 2, dir: "internal/shape", ours: []string{"internal/mcp", "internal/mcp/wire"}},
	// strictyaml to see files change
	{level: 1, dir: "internal/tlsfiles", ours: []string{"internal/problems", "internal/strictyaml"},
		third: []string{"golang.org/x/crypto/acme"}},
	// httpproxy for the proxies of the environment
	{level: 1, dir: "internal/egress", ours: []string{"internal/tlsfiles", "internal/mcp", "internal/problems"},
		third: []string{"golang.org/x/net/http/httpproxy"}},
	{level: 1, dir: "internal/safehttp", ours: []string{"internal/egress", "internal/loopback", "internal/mcp"}},
	{level: 1, dir: "internal/safelink", ours: []string{"internal/safehttp"}}, // for addresses that are refused
	{level: 1, dir: "internal/webpage"},
	{level: 1, dir: "internal/http1"},
	// for frontmatter
	{level: 1, dir: "internal/skillmd", ours: []string{"internal/mcp"}, third: []string{"gopkg.in/yaml.v3"}},
	{level: 1, dir: "internal/seal"},
	// the record of a call has its trail
	{level: 1, dir: "internal/record", ours: []string{"internal/mcp", "internal/redact", "internal/trail"}},
	// seal for what a good secret is
	{level: 2, dir: "internal/audit", ours: []string{"internal/tlsfiles", "internal/mcp", "internal/problems",
		"internal/record", "internal/retryafter", "internal/seal"}},
	// record for the digest of a session
	{level: 2, dir: "internal/tracing", ours: []string{"internal/tlsfiles", "internal/mcp", "internal/problems",
		"internal/record", "internal/trail"},
		third: []string{"go.opentelemetry.io/otel", "go.opentelemetry.io/contrib/bridges/prometheus",
			"golang.org/x/net/http/httpguts"}}, // httpguts for names of headers
	{level: 1, dir: "internal/pin", ours: []string{"internal/mcp"},
		third: []string{"golang.org/x/text", "github.com/aymanbagabas/go-udiff"}},
	{level: 1, dir: "internal/strictyaml", third: []string{"gopkg.in/yaml.v3"}},
	{level: 1, dir: "internal/redisdb", ours: []string{"internal/tlsfiles", "internal/mcp", "internal/problems"},
		third: []string{"github.com/redis/go-redis/v9"}},
	{level: 2, dir: "internal/expiring", ours: []string{"internal/redisdb", "internal/seal"},
		third: []string{"github.com/hashicorp/golang-lru/v2", "go.etcd.io/bbolt"}},
	{level: 2, dir: "internal/recent", // redisdb and seal for what replicas share
		ours: []string{"internal/mcp", "internal/record", "internal/redisdb", "internal/seal", "internal/trail"}},
	{level: 1, dir: "auth/apikey", ours: []string{"internal/problems"}},
	// clientele for its part of the section, kept for proofs that were used
	{level: 2, dir: "auth", ours: []string{"auth/apikey", "auth/clientele", "internal/egress", "internal/expiring",
		"internal/loopback", "internal/mcp", "internal/problems", "internal/safehttp"},
		third: []string{"github.com/coreos/go-oidc/v3", "github.com/go-jose/go-jose/v4", "github.com/hashicorp/golang-lru/v2",
			"golang.org/x/sync"}},
	{level: 2, dir: "auth/vault", ours: []string{"internal/tlsfiles", "internal/egress", "internal/expiring",
		"internal/loopback", "internal/mcp", "internal/problems", "internal/redisdb", "internal/retryafter",
		"internal/safehttp", "internal/seal"},
		third: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/oauth2"}},
	{level: 2, dir: "auth/outbound", ours: []string{"internal/egress", "internal/loopback", "internal/mcp",
		"internal/problems", "internal/retryafter", "internal/safehttp", "auth/vault"},
		third: []string{"golang.org/x/oauth2", "github.com/redis/go-redis/v9", "github.com/go-jose/go-jose/v4",
			"github.com/hashicorp/golang-lru/v2", "golang.org/x/sync"}},
	{level: 3, dir: "auth/signin", ours: []string{"auth", "internal/expiring", "internal/mcp", "internal/redisdb",
		"internal/seal"}, third: []string{"golang.org/x/oauth2"}},
	{level: 3, dir: "auth/grants", ours: []string{"auth", "auth/clientele", "auth/signin", "internal/expiring",
		"internal/mcp", "internal/redisdb", "internal/seal", "internal/webpage"},
		third: []string{"golang.org/x/oauth2", "github.com/go-jose/go-jose/v4"}},
	{level: 2, dir: "auth/clientele", ours: []string{"internal/egress", "internal/expiring", "internal/mcp",
		"internal/problems", "internal/safehttp", "internal/seal"},
		third: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/sync/singleflight", "golang.org/x/time/rate"}},
	{level: 4, dir: "auth/accounts", ours: []string{"auth/signin", "auth/vault", "internal/egress", "internal/expiring",
		"internal/mcp", "internal/problems", "internal/safehttp", "internal/safelink", "internal/seal", "internal/webpage"},
		// publicsuffix for the site of an endpoint
		third: []string{"golang.org/x/oauth2", "golang.org/x/net/publicsuffix"}},
	// seal for leases and what forwards carry; http1 for small ones
	{level: 2, dir: "internal/cluster", ours: []string{"internal/problems", "internal/redisdb", "internal/seal",
		"internal/http1"},
		third: []string{"golang.org/x/sync/singleflight", "golang.org/x/net/netutil"}}, // netutil bounds connections
	{level: 3, dir: "internal/home", ours: []string{"internal/cluster"},
		third: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/sync/errgroup"}},
	{level: 2, dir: "internal/largeresults", ours: []string{"internal/mcp", "internal/problems", "internal/redisdb",
		"internal/seal"}},
	// largeresults for their section, seal for what stands in Redis
	{level: 3, dir: "session", ours: []string{"internal/home", "internal/largeresults", "internal/mcp",
		"internal/problems", "internal/redisdb", "internal/seal"},
		third: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/time/rate"}},
	{level: 2, dir: "policy/foureyes", ours: []string{"internal/mcp", "internal/redisdb", "internal/seal"}},
	{level: 2, dir: "policy/allowance", ours: []string{"internal/redisdb"},
		third: []string{"github.com/hashicorp/golang-lru/v2"}},
	// record for what a rule lets records have, redisdb and seal for approvals of replicas
	{level: 2, dir: "policy", ours: []string{"internal/mcp", "internal/problems", "internal/record", "internal/redisdb",
		"internal/seal", "policy/allowance", "policy/foureyes"},
		third: []string{"cel.dev/cel-go", "github.com/hashicorp/golang-lru/v2", "golang.org/x/text"}},
	{level: 3, dir: "upstream/admit", ours: []string{"internal/mcp"},
		third: []string{"github.com/cenkalti/backoff/v5", "github.com/hashicorp/golang-lru/v2", "golang.org/x/time/rate"}},
	{level: 3, dir: "upstream/stateful/restore", ours: []string{"internal/mcp"}},
	{level: 3, dir: "upstream/pool", ours: []string{"upstream/admit"}, third: []string{"github.com/cenkalti/backoff/v5"}},
	{level: 2, dir: "upstream/transport", ours: []string{"internal/mcp", "internal/mcp/wire", "internal/trail"},
		third: []string{"golang.org/x/time/rate"}},
	// safehttp for addresses, and which are refused
	{level: 3, dir: "upstream/transport/dial", ours: []string{"internal/egress", "internal/http1", "internal/safehttp",
		"upstream/transport"}},
	// unix for what programs may not gain
	{level: 3, dir: "upstream/transport/stdio", ours: []string{"internal/mcp", "internal/mcp/wire", "upstream/transport",
		"upstream/transport/stdio/sandbox"}, third: []string{"golang.org/x/sys/unix"}},
	// unix for Landlock and namespaces, bpf for the filters of seccomp
	{level: 2, dir: "upstream/transport/stdio/sandbox", ours: []string{"internal/problems"},
		third: []string{"golang.org/x/sys/unix", "golang.org/x/net/bpf"}},
	// http1 for requests that were not sent
	{level: 3, dir: "upstream/transport/streamable",
		ours: []string{"internal/mcp", "internal/mcp/wire", "internal/http1", "internal/retryafter", "internal/trail",
			"upstream/transport"}},
	// safehttp for the origin of a URL
	{level: 3, dir: "upstream/transport/sse", ours: []string{"internal/mcp", "internal/mcp/wire", "internal/safehttp",
		"internal/trail", "upstream/transport", "upstream/transport/streamable"}},
	{level: 3, dir: "upstream/skills", ours: []string{"internal/mcp", "internal/mcp/wire", "internal/skillmd",
		"upstream/transport"}, third: []string{"github.com/hashicorp/golang-lru/v2"}},
	// safelink for pages that users are sent to
	{level: 3, dir: "upstream/dialect", ours: []string{"internal/mcp", "internal/mcp/wire", "internal/safelink",
		"internal/trail", "upstream/admit", "upstream/pool", "upstream/transport"}},
	{level: 3, dir: "upstream/stateless", ours: []string{"internal/mcp", "internal/mcp/wire", "upstream/admit",
		"upstream/dialect", "upstream/pool", "upstream/transport"}},
	{level: 4, dir: "upstream/stateful", ours: []string{"internal/home", "internal/mcp", "internal/mcp/wire",
		"internal/trail", "upstream/admit", "upstream/dialect", "upstream/pool", "upstream/stateful/restore",
		"upstream/transport"}},
	// auth/outbound, egress and largeresults for their keys of an upstream, safehttp for the address of a URL
	{level: 3, dir: "upstream",
		ours: []string{"internal/mcp", "internal/mcp/wire", "internal/egress", "internal/largeresults", "internal/loopback",
			"internal/problems", "internal/redact", "internal/safehttp", "auth/outbound", "upstream/admit", "upstream/dialect",
			"upstream/pool", "upstream/stateful", "upstream/stateless", "upstream/skills", "internal/tracing",
			"upstream/transport", "upstream/transport/dial", "upstream/transport/sse", "upstream/transport/stdio",
			"upstream/transport/stdio/sandbox", "upstream/transport/streamable"},
		third: []string{"golang.org/x/sync", "github.com/hashicorp/golang-lru/v2"}},
	{level: 4, dir: "upstream/skilldir", ours: []string{"internal/mcp", "internal/skillmd", "upstream"},
		third: []string{"github.com/fsnotify/fsnotify"}},
	{level: 3, dir: "gateway/replay", ours: []string{"internal/mcp", "internal/record", "policy"}},
	{level: 1, dir: "gateway/clients", ours: []string{"internal/mcp"}},
	{level: 1, dir: "gateway/catalog/fit", ours: []string{"internal/mcp", "internal/mcp/wire"}},
	// wire for parameter headers, seal for cursors, skillmd for what a skill may have, clients to merge instructions
	{level: 4, dir: "gateway/catalog",
		ours: []string{"internal/mcp", "internal/mcp/wire", "internal/pin", "internal/problems", "internal/seal",
			"internal/skillmd", "gateway/catalog/fit", "gateway/clients", "gateway/view"},
		third: []string{"golang.org/x/sync", "github.com/cenkalti/backoff/v5", "github.com/hashicorp/golang-lru/v2"}},
	// policy for patterns and callers
	{level: 4, dir: "gateway/view", ours: []string{"internal/mcp", "internal/problems", "policy"}},
	{level: 2, dir: "gateway/pinning", ours: []string{"internal/mcp", "internal/pin"}},
	{level: 4, dir: "gateway/hooks", ours: []string{"internal/mcp", "internal/mcp/wire", "internal/tlsfiles",
		"internal/problems", "internal/redact", "internal/tracing", "policy"}},
	// clients for how much of a description is read
	{level: 4, dir: "gateway/feature/*", ours: []string{"internal/mcp", "internal/problems", "gateway/clients"}},
	// session for the errors of its store
	{level: 4, dir: "gateway/front/refuse", ours: []string{"internal/mcp", "internal/mcp/wire", "session"}},
	{level: 4, dir: "gateway/front/stream", ours: []string{"internal/mcp", "internal/mcp/wire"}},
	{level: 4, dir: "gateway/front/live", ours: []string{"internal/mcp", "internal/mcp/wire", "internal/home", "session",
		"gateway/front/refuse", "gateway/front/stream"}, third: []string{"golang.org/x/sync/semaphore"}},
	{level: 4, dir: "gateway/front/request", ours: []string{"internal/mcp", "internal/mcp/wire", "gateway/front/refuse"},
		third: []string{"golang.org/x/net/http/httpguts"}}, // for names of headers
	{level: 4, dir: "gateway/front/exchange", // seal for request state
		ours: []string{"internal/mcp", "internal/mcp/wire", "session", "internal/home", "internal/seal", "internal/tracing",
			"internal/trail", "gateway/front/refuse", "gateway/front/request", "gateway/front/stream", "gateway/front/live"},
		third: []string{"golang.org/x/time/rate"}},
	{level: 4, dir: "gateway/front/stateful",
		ours: []string{"internal/mcp", "internal/mcp/wire", "session", "internal/home", "gateway/front/refuse",
			"gateway/front/request", "gateway/front/stream", "gateway/front/live", "gateway/front/exchange"}},
	{level: 4, dir: "gateway/front/sse2024",
		ours: []string{"internal/mcp", "internal/mcp/wire", "session", "internal/home", "gateway/front/refuse",
			"gateway/front/request", "gateway/front/stream", "gateway/front/live", "gateway/front/exchange",
			"gateway/front/stateful"}},
	{level: 5, dir: "gateway/front",
		ours: []string{"internal/mcp", "internal/mcp/wire", "session", "internal/cluster", "internal/home",
			"internal/problems", "gateway/front/refuse", "gateway/front/request", "gateway/front/stream",
			"gateway/front/live", "gateway/front/exchange", "gateway/front/stateful", "gateway/front/sse2024"},
		third: []string{"golang.org/x/time/rate"}},
	{level: 2, dir: "gateway/configtext", ours: []string{"internal/redact", "internal/strictyaml"},
		third: []string{"gopkg.in/yaml.v3", "github.com/aymanbagabas/go-udiff"}},
	{level: 3, dir: "gateway/keyfile", ours: []string{"auth/apikey", "gateway/configtext", "internal/strictyaml"}},
	// pin for what people cannot see
	{level: 3, dir: "gateway/setup", ours: []string{"gateway/configtext", "internal/loopback", "internal/pin"},
		third: []string{"gopkg.in/yaml.v3", "github.com/BurntSushi/toml", "github.com/tailscale/hujson"}},
	{level: 1, dir: "gateway/discovery", ours: []string{"internal/failure"},
		third: []string{"gopkg.in/yaml.v3", "github.com/cenkalti/backoff/v5"}},
	{level: 2, dir: "gateway/doorway", ours: []string{"internal/problems"},
		third: []string{"github.com/pires/go-proxyproto", "github.com/coreos/go-systemd/v22/activation"}},
	// accounts, outbound and vault for the sign-in of the one user, admit for pauses, egress and loopback for where it
	// may lead
	{level: 5, dir: "internal/bridge", ours: []string{"auth/accounts", "auth/outbound", "auth/vault", "internal/egress",
		"internal/expiring", "internal/loopback", "internal/mcp", "internal/mcp/wire", "internal/seal", "upstream/admit",
		"upstream/transport", "upstream/transport/dial", "upstream/transport/streamable"},
		third: []string{"golang.org/x/sync/singleflight"}},
	{level: 5, dir: "gateway/observe", ours: []string{"0-4"}, third: []string{"github.com/hashicorp/golang-lru/v2"}},
	// for their sections
	{level: 5, dir: "gateway/config", ours: []string{"0-4", "gateway/admin", "gateway/console", "gateway/front",
		"gateway/observe"}},
	{level: 5, dir: "gateway/state", ours: []string{"0-4", "gateway/config"}},
	{level: 1, dir: "gateway/lifecycle"},
	// admin for the form of questions and answers
	{level: 5, dir: "gateway/whatif", ours: []string{"0-4", "gateway/admin", "gateway/clients", "gateway/config",
		"gateway/operate"}},
	// admin for the form of what operators try
	{level: 5, dir: "gateway/trial", ours: []string{"0-4", "gateway/admin", "gateway/config", "gateway/diagnose",
		"gateway/pinning/review", "gateway/operate"}},
	// admin for the form of what a gateway has seen
	{level: 5, dir: "gateway/pinning/review", ours: []string{"internal/mcp", "internal/pin", "gateway/admin",
		"gateway/config", "gateway/pinning"}},
	{level: 5, dir: "gateway/handover", ours: []string{"internal/mcp", "gateway/feature/listchange"}},
	{level: 5, dir: "gateway/admin", ours: []string{"0-4"}},
	{level: 5, dir: "gateway/console", ours: []string{"0-4", "gateway/admin"}},
	// admin for the form of answers
	{level: 5, dir: "gateway/operate", ours: []string{"0-4", "gateway/admin", "gateway/config", "gateway/configtext",
		"gateway/front/live"}},
	// admin for the form of failures, servers, pins and findings
	{level: 5, dir: "gateway/diagnose", ours: []string{"0-4", "gateway/admin", "gateway/config", "gateway/operate"}},
	{level: 5, dir: "gateway/demo", ours: []string{"0-4"},
		third: []string{"github.com/modelcontextprotocol/go-sdk", "github.com/go-jose/go-jose/v4"}},
	{level: 6, dir: "gateway", ours: []string{"*"},
		// netutil bounds connections
		third: []string{"github.com/go-chi/chi/v5", "golang.org/x/sync", "golang.org/x/net/netutil",
			"github.com/coreos/go-systemd/v22/daemon"}},
	// unix for what other programs may not read; sandbox because its launcher is this executable; configtext to replace
	// files of clients
	{level: 7, dir: "cmd/gatehouse", ours: []string{"gateway", "gateway/admin", "gateway/demo", "gateway/configtext",
		"gateway/discovery", "gateway/keyfile", "gateway/replay", "gateway/setup", "gateway/state", "gateway/trial",
		"auth/apikey", "internal/mcp", "internal/bridge", "internal/loopback", "internal/record", "internal/strictyaml",
		"internal/tlsfiles",
		"gateway/config", "gateway/doorway",
		"gateway/whatif", "gateway/pinning/review", "upstream/transport/stdio/sandbox"},
		third: []string{"github.com/spf13/cobra", "golang.org/x/sys/unix", "golang.org/x/term"}},

	{level: testLevel, dir: "internal/archtest"},
	{level: testLevel, dir: "internal/mcptest/answers", ours: []string{"internal/mcp"}},
	{level: testLevel, dir: "internal/mcptest", ours: []string{"*"}, third: []string{"*"}},
	{level: testLevel, dir: "internal/e2e", ours: []string{"*"}, third: []string{"*"}},
	{level: testLevel, dir: "internal/bench", ours: []string{"*"}, third: []string{"*"}},
	{level: testLevel, dir: "internal/soak", ours: []string{"*"}, third: []string{"*"}},
	{level: testLevel, dir: "internal/conformance", ours: []string{"*"}, third: []string{"*"}},
	{level: testLevel, dir: "internal/interop", ours: []string{"*"}, third: []string{"*"}},
	{level: testLevel, dir: "internal/browser", ours: []string{"*"}, third: []string{"*"}},
	{level: testLevel, dir: "internal/faultproxy"},
	{level: testLevel, dir: "internal/redistest", ours: []string{"internal/mcptest"},
		third: []string{"github.com/redis/go-redis/v9"}},
	{level: testLevel, dir: "session/sessiontest", ours: []string{"session", "internal/home", "internal/mcp"}},
	{level: testLevel, dir: "upstream/upstreamtest",
		ours: []string{"upstream", "internal/mcp", "internal/mcp/wire", "internal/mcptest", "internal/home", "session",
			"auth/outbound"}, third: []string{"*"}},
}

// metricsClient may be imported wherever metrics are defined.
const metricsClient = "github.com/prometheus/client_golang"

// layerOf returns the row of a directory. A subdirectory of a test package, such as a
// program that a test builds, belongs to that package's row.
func layerOf(dir string) (layer, bool) {
	for _, l := range layers {
		if l.dir == dir || path.Base(l.dir) == "*" && path.Dir(l.dir) == path.Dir(dir) {
			return l, true
		}
		if l.level == testLevel && strings.HasPrefix(dir, l.dir+"/") {
			return l, true
		}
	}
	return layer{}, false
}

func (l layer) mayImport(dir string) bool {
	target, ok := layerOf(dir)
	if !ok || target.level == testLevel && l.level != testLevel {
		return false
	}
	if dir == failures {
		return true
	}
	for _, allowed := range l.ours {
		if allowed == "*" || allowed == dir || allowed == "0-4" && target.level <= 4 ||
			path.Base(allowed) == "*" && target.dir == allowed {
			return true
		}
	}
	return target.level == testLevel && target.dir == l.dir // its own parts
}

// imports calls fn for each import of a file. ours is the path from the root if the package
// is ours.
func (m *module) imports(f *file, fn func(at, imported, ours string)) {
	for _, spec := range f.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has accepted it
		}
		ours, isOurs := strings.CutPrefix(imported, modulePath+"/")
		if !isOurs {
			ours = ""
		}
		fn(m.at(spec.Pos()), imported, ours)
	}
}

func checkLayers(m *module) (problems []string) {
	for _, p := range m.packages {
		l, ok := layerOf(p.dir)
		if !ok {
			problems = append(problems,
				m.problem(p.dir,
					"this package is not in the table of layers: put its code into a package that is, or add a row to internal/archtest/layers_test.go saying what it may import"))
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			m.imports(f, func(at, imported, ours string) {
				if imported == modulePath || ours != "" && !l.mayImport(ours) {
					problems = append(problems,
						m.problem(at, "%s must not import %s, only %s: move what it needs down, or let the caller pass it in",
							p.dir, imported, orNothing(l.ours)))
				}
			})
		}
	}
	return problems
}

func checkThirdParty(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		l, ok := layerOf(p.dir)
		if f.test || !ok {
			return
		}
		m.imports(f, func(at, imported, ours string) {
			first, _, _ := strings.Cut(imported, "/")
			if ours != "" || imported == modulePath || !strings.Contains(first, ".") || under(imported, metricsClient) {
				return
			}
			if !slices.ContainsFunc(l.third, func(allowed string) bool { return allowed == "*" || under(imported, allowed) }) {
				problems = append(problems,
					m.problem(at, "%s must not import %s, only %s: use the standard library, or leave it to the package that has it",
						p.dir, imported, orNothing(l.third)))
			}
		})
	})
	return problems
}

func checkMetricsFiles(m *module) (problems []string) {
	m.each(func(p *pkg, f *file) {
		if f.test || path.Base(f.name) == "metrics.go" || f.name == "gateway/routes.go" {
			return
		}
		m.imports(f, func(at, imported, _ string) {
			if under(imported, metricsClient) {
				problems = append(problems,
					m.problem(at, "%s is for files named metrics.go: define the numbers there and give them names that say what they count", imported))
			}
		})
	})
	return problems
}

// under reports whether an import path is prefix or below it.
func under(imported, prefix string) bool {
	return imported == prefix || strings.HasPrefix(imported, prefix+"/")
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "the standard library"
	}
	return strings.Join(list, ", ")
}

func TestCheckLayers(t *testing.T) {
	importing := func(pkg string, paths ...string) string {
		src := "package " + pkg + "\n"
		for _, p := range paths {
			src += "import _ \"" + p + "\"\n"
		}
		return src
	}
	runRule(t, checkLayers, []ruleTest{
		{"allowed", map[string]string{
			"internal/mcp/a.go":           importing("mcp", "context"),
			"internal/mcp/wire/a.go":      importing("wire", modulePath+"/internal/mcp"),
			"gateway/catalog/a.go":        importing("catalog", modulePath+"/internal/seal", modulePath+"/internal/mcp/wire"),
			"gateway/feature/skills/a.go": importing("skills", modulePath+"/internal/mcp"),
			"gateway/demo/a.go":           importing("demo", modulePath+"/upstream", modulePath+"/gateway/catalog"),
			"gateway/a.go": importing("gateway", modulePath+"/gateway/front",
				modulePath+"/gateway/feature/skills"),
			"cmd/gatehouse/main.go":        importing("main", modulePath+"/gateway"),
			"internal/e2e/a.go":            importing("e2e", modulePath+"/internal/mcptest", modulePath+"/gateway"),
			"internal/interop/server/a.go": importing("main", modulePath+"/internal/interop"),
			"upstream/a_test.go":           importing("upstream_test", modulePath+"/internal/mcptest"),
		}, nil},
		{"up", map[string]string{"internal/mcp/a.go": importing("mcp", modulePath+"/internal/mcp/wire")},
			[]string{"internal/mcp/a.go:2: internal/mcp must not import " + modulePath +
				"/internal/mcp/wire, only internal/jsonstring, internal/trail: move"}},
		{"sideways", map[string]string{"upstream/a.go": importing("upstream", modulePath+"/session")},
			[]string{"upstream must not import " + modulePath + "/session, only internal/mcp, internal/mcp/wire"}},
		{"the demo is not below the gateway", map[string]string{"gateway/demo/a.go": importing("demo",
			modulePath+"/gateway")},
			[]string{"gateway/demo must not import"}},
		{"a command past the gateway", map[string]string{"cmd/gatehouse/a.go": importing("main", modulePath+"/upstream")},
			[]string{"only gateway, gateway/admin, gateway/demo"}},
		{"test packages in what is shipped", map[string]string{"gateway/a.go": importing("gateway",
			modulePath+"/internal/mcptest", modulePath+"/session/sessiontest")},
			[]string{"internal/mcptest", "session/sessiontest"}},
		{"the module's root", map[string]string{"gateway/a.go": importing("gateway", modulePath)},
			[]string{"gateway must not import"}},
		{"a package without a row", map[string]string{"gateway/extra/a.go": "package extra\n",
			"gateway/feature/a/b/c.go": "package b\n"},
			[]string{"gateway/extra: this package is not in the table", "gateway/feature/a/b: this package"}},
	})
}

func TestCheckThirdParty(t *testing.T) {
	runRule(t, checkThirdParty, []ruleTest{
		{"allowed", map[string]string{
			"gateway/a.go":          `package gateway; import ("golang.org/x/sync/errgroup"; "github.com/go-chi/chi/v5/middleware"; "net/http")`,
			"gateway/demo/a.go":     `package demo; import "github.com/modelcontextprotocol/go-sdk/mcp"`,
			"upstream/a_test.go":    `package upstream; import "github.com/modelcontextprotocol/go-sdk/mcp"`,
			"cmd/gatehouse/main.go": `package main; import "github.com/spf13/cobra"`,
			"session/metrics.go":    `package session; import "github.com/prometheus/client_golang/prometheus"`,
			"internal/bench/a.go":   `package bench; import "example.com/anything"`,
		}, nil},
		{"the SDK on the data path",
			map[string]string{"upstream/a.go": `package upstream; import "github.com/modelcontextprotocol/go-sdk/mcp"`},
			[]string{"upstream/a.go:1: upstream must not import github.com/modelcontextprotocol/go-sdk/mcp, only golang.org/x/sync"}},
		{"YAML past strictyaml", map[string]string{"session/a.go": `package session; import "gopkg.in/yaml.v3"`},
			[]string{"session must not import gopkg.in/yaml.v3"}},
		{"a longer name", map[string]string{"internal/strictyaml/a.go": `package strictyaml; import "gopkg.in/yaml.v3x"`},
			[]string{"yaml.v3x"}},
		{"anything in the inner language",
			map[string]string{"internal/mcp/a.go": `package mcp; import "golang.org/x/sync/errgroup"`},
			[]string{"only the standard library"}},
	})
}

func TestCheckMetricsFiles(t *testing.T) {
	runRule(t, checkMetricsFiles, []ruleTest{
		{"allowed", map[string]string{
			"upstream/metrics.go": `package upstream; import "github.com/prometheus/client_golang/prometheus"`,
			"gateway/routes.go":   `package gateway; import "github.com/prometheus/client_golang/prometheus/promhttp"`,
			"upstream/a_test.go":  `package upstream; import "github.com/prometheus/client_golang/prometheus/testutil"`,
		}, nil},
		{"elsewhere", map[string]string{"upstream/pool.go": `package upstream; import "github.com/prometheus/client_golang/prometheus"`},
			[]string{"upstream/pool.go:1: github.com/prometheus/client_golang/prometheus is for files named metrics.go"}},
	})
}
