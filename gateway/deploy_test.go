package gateway

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/demo"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/lifecycle"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const deployDir = "../deploy"

// deployed is the configuration of a deployment, and its environment.
type deployed struct {
	file    string // of the configuration
	mounted string // its path in the container
	args    []string
	env     []string // variables of the container
	secrets []string // the files of the container that are secrets
	grace   time.Duration
}

// check expects the real loader to accept a configuration, and its environment to fit.
func (d deployed) check(t *testing.T) Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, d.file))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\$\{env:(\w+)\}`).FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(d.env, m[1]) {
			t.Errorf("%s needs %s, which the container does not get", d.file, m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\$\{file:([^}]+)\}`).FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(d.secrets, m[1]) {
			t.Errorf("%s needs %s, which the container does not have", d.file, m[1])
		}
		text = bytes.ReplaceAll(text, []byte(m[0]), []byte("${file:"+secretFile(t, path.Base(m[1]))+"}"))
	}
	cfg, warnings, err := config.Parse(filepath.Join(deployDir, d.file), text)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%s: %v, warnings %v", d.file, err, warnings)
	}
	if cfg.Sessions.Store != session.StoreRedis || cfg.Auth.Mode != "oauth" {
		t.Errorf("%s is not for several replicas on a network", d.file)
	}
	if d.grace < cfg.ShutdownDelay+cfg.ShutdownTimeout+lifecycle.WindUp || cfg.ShutdownDelay == 0 {
		t.Errorf("%s: %s of grace for a delay of %s and a timeout of %s", d.file, d.grace, cfg.ShutdownDelay,
			cfg.ShutdownTimeout)
	}
	if want := path.Join(d.mounted, filepath.Base(d.file)); len(d.args) != 3 || d.args[0] != "serve" || d.args[2] != want {
		t.Errorf("%s: the container is started with %q, and its configuration is %s", d.file, d.args, want)
	}
	if got := cfg.Upstreams[0].Command; !slices.Equal(got, []string{"/gatehouse", demo.StdioCommand}) {
		t.Errorf("%s: the demo upstream is %q", d.file, got)
	}
	return cfg
}

// secretFile writes a secret into a file.
func secretFile(t *testing.T, name string) string {
	t.Helper()
	secrets := map[string]string{"key": "0123456789abcdef0123456789abcdef", "redis_password": "s3cret",
		"redis-url": "rediss://redis.example.com:6379/0"}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(secrets[name]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// strictly reads the documents of a YAML file. An unexpected key fails the test.
func strictly[T any](t *testing.T, file string) (all []T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, file))
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	for {
		var one T
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, one)
	}
}

// deploySettings sets the variables that the configurations refer to.
func deploySettings(t *testing.T) {
	for name, value := range map[string]string{
		"SITE": "mcp.example.com", "ISSUER": "https://login.example.com", "POD_IP": "10.1.2.3", "HOSTNAME": "3f2a9c",
	} {
		t.Setenv(name, value)
	}
}

// dockerfile returns the words of each line of a kind.
func dockerfile(t *testing.T, kind string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, kind+" "); ok {
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	return lines
}

// command returns the command of the image without further arguments.
func command(t *testing.T) (args []string) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(dockerfile(t, "CMD")[0]), &args); err != nil {
		t.Fatal(err)
	}
	return args
}

func TestDeployDockerfile(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	from := dockerfile(t, "FROM")
	if !strings.Contains(from[0], "golang:"+goVersion+" ") || !strings.Contains(from[1], "distroless/static") {
		t.Errorf("built from %q, and go.mod wants Go %s", from, goVersion)
	}
	if got := dockerfile(t, "USER"); !slices.Equal(got, []string{"65532:65532"}) {
		t.Errorf("runs as %q", got)
	}
	if got := dockerfile(t, "ENTRYPOINT"); !slices.Equal(got, []string{`["/gatehouse"]`}) {
		t.Errorf("runs %q", got)
	}
	if built := strings.Join(dockerfile(t, "RUN"), "\n"); !strings.Contains(built, "CGO_ENABLED=0") ||
		!strings.Contains(built, "-o /gatehouse ./cmd/gatehouse") {
		t.Errorf("built by %s", built)
	}
	script, err := os.ReadFile(filepath.Join(deployDir, "release", "image.sh"))
	if err != nil {
		t.Fatal(err)
	}
	release := strings.ReplaceAll(string(script), `"`, "")
	for _, label := range dockerfile(t, "LABEL") {
		if !strings.Contains(release, "--label "+strings.ReplaceAll(label, `"`, "")+" ") {
			t.Errorf("the image of a release has no %s", label)
		}
	}
	files := slices.Sorted(strings.FieldsSeq(dockerfile(t, "COPY --from=build")[0]))
	if want := []string{"/", "/NOTICE", "/gatehouse", "/src/LICENSE"}; !slices.Equal(files, want) {
		t.Errorf("the image has %q", files)
	}
}

// composeFile is what deploy/compose.yaml may contain.
type composeFile struct {
	Name     string
	Replica  composeService `yaml:"x-replica"`
	Services map[string]composeService
	Secrets  map[string]struct{ File string }
	Volumes  map[string]any
}

type composeService struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Environment map[string]string
	Command     []string
	Ports       []string
	Volumes     []string
	Secrets     []string
	Grace       time.Duration `yaml:"stop_grace_period"`
	Init        bool
	Restart     string
	ReadOnly    bool `yaml:"read_only"`
	Tmpfs       []string
	CapDrop     []string                              `yaml:"cap_drop"`
	SecurityOpt []string                              `yaml:"security_opt"`
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct {
		Test              []string
		Interval, Timeout string
		Retries           int
	}
}

func TestDeployCompose(t *testing.T) {
	deploySettings(t)
	c := strictly[composeFile](t, "compose.yaml")[0]
	proxy, err := os.ReadFile(filepath.Join(deployDir, "compose/Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(deployDir, "env.example"))
	if err != nil {
		t.Fatal(err)
	}
	d := deployed{file: "compose/gatehouse.yaml", args: command(t)}
	var replicas []string
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			_, isVolume := c.Volumes[source]
			if _, err := os.Stat(filepath.Join(deployDir, source)); !isVolume && err != nil {
				t.Errorf("%s mounts %s: %v", name, v, err)
			}
		}
		if s.Image != "gatehouse" {
			continue
		}
		replicas = append(replicas, name)
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") ||
			len(s.Ports) > 0 {
			t.Errorf("%s may more than it needs: %+v", name, s)
		}
		if from := path.Join(s.Build.Context, s.Build.Dockerfile); from != "../deploy/Dockerfile" {
			t.Errorf("%s is built from %s", name, from)
		}
		d.grace, d.env, d.secrets = s.Grace, []string{"HOSTNAME"}, nil // the engine sets it
		for _, name := range s.Secrets {
			d.secrets = append(d.secrets, "/run/secrets/"+name)
			if file := c.Secrets[name].File; file == "" ||
				!strings.Contains(string(example), "> deploy/"+strings.TrimPrefix(file, "./")) {
				t.Errorf("env.example does not say how to make the secret %s", name)
			}
		}
		for variable, value := range s.Environment {
			d.env = append(d.env, variable)
			checkExplained(t, string(example), value)
		}
		d.mounted = strings.TrimSuffix(strings.TrimPrefix(s.Volumes[0], "./compose:"), ":ro")
	}
	if len(replicas) != 3 {
		t.Errorf("%d replicas", len(replicas))
	}
	cfg := d.check(t)
	for _, name := range replicas {
		if !strings.Contains(string(proxy), " "+name+cfg.Listen[strings.LastIndex(cfg.Listen, ":"):]) {
			t.Errorf("the balancer does not know %s at %s", name, cfg.Listen)
		}
	}
	checkBalancer(t, cfg, string(proxy))
	if url := string(cfg.Sessions.Redis.URL); !strings.HasPrefix(url, "redis://redis:") ||
		c.Services["redis"].Image == "" {
		t.Errorf("the store is %s", url)
	}
}

// checkExplained expects a variable of compose to be in env.example, and to be required.
func checkExplained(t *testing.T, example, value string) {
	t.Helper()
	m := regexp.MustCompile(`^\$\{(\w+):\?`).FindStringSubmatch(value)
	if m == nil || !strings.Contains(example, "\n"+m[1]+"=") {
		t.Errorf("%s is not in env.example, or not needed", value)
	}
}

// checkBalancer expects the balancer to use the replicas' health endpoints.
func checkBalancer(t *testing.T, cfg Config, proxy string) {
	t.Helper()
	for _, want := range []string{
		"health_port " + strings.TrimPrefix(cfg.Admin.Listen, "0.0.0.0:") + "\n",
		"health_uri /readyz?exclude=" + diagnose.ExcludeStore + "\n",
		"lb_policy round_robin\n", "flush_interval -1\n", "{$SITE} {",
	} {
		if !strings.Contains(proxy, want) {
			t.Errorf("the balancer lacks %q", want)
		}
	}
	if cfg.PublicURL != "https://mcp.example.com/mcp" {
		t.Errorf("the endpoint is %s", cfg.PublicURL)
	}
}
