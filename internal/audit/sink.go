package audit

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// Types of sinks.
const (
	TypeFile    = "file"
	TypeStdout  = "stdout"
	TypeSyslog  = "syslog"
	TypeWebhook = "webhook"
	TypeOTLP    = "otlp"
)

// Values of Sink.Sync.
const (
	SyncAlways = "always"
	SyncSecond = "second"
	SyncNever  = "never"
)

const (
	leastBytes     = 64 << 10
	defaultTimeout = 10 * time.Second
	mostTimeout    = 5 * time.Minute
)

// Sink is one place where records go.
type Sink struct {
	// Type is file, stdout, syslog, webhook (lines by HTTP POST) or otlp (log records of OpenTelemetry over
	// HTTP). Required.
	Type string `yaml:"type"`
	// Name identifies the sink in metrics and in the names of chains: a-z, 0-9 and -. Default: the type.
	Name string `yaml:"name"`

	// Path is the file, for the type file. Required there. Its directory must exist.
	Path string `yaml:"path"`
	// MaxBytes is the size at which a file is renamed and a new one begun, at least 64KiB. Default 100MiB.
	MaxBytes int64 `yaml:"max_bytes"`
	// MaxAge is likewise the age, at least 1m. Default: files are not renamed for their age.
	MaxAge time.Duration `yaml:"max_age"`
	// Keep is how many renamed files are kept; the oldest are deleted. Default: all.
	Keep int `yaml:"keep" zero:"all are kept, the default"`
	// Sync says when the disk has to have what was written: "always", after each write;
	// "second", the default, within about a second; or "never", when the system does it.
	Sync string `yaml:"sync"`

	// URL is the receiver, for the types syslog, webhook and otlp. Required there. syslog:
	// tls://host:6514, tcp://host:601, udp://host:514 or unix:///path; the others: https or
	// http. An otlp URL without a path gets /v1/logs.
	URL string `yaml:"url" secret:"path"`
	// AllowPlaintext allows a URL without TLS to hosts that are not loopback. Default false.
	AllowPlaintext bool `yaml:"allow_plaintext"`
	// Timeout bounds one attempt to hand over records. Default 10s, at most 5m.
	Timeout time.Duration `yaml:"timeout"`
	// CAFile has the authorities that sign the receiver's certificate, in PEM. Default: those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the gateway's own certificate and its key, in PEM, for a receiver that asks
	// for one. They are read again for each connection. Default none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`

	// Facility is that of syslog messages: user, daemon, auth, authpriv, audit or local0 to local7. Default
	// audit.
	Facility string `yaml:"facility"`
	// AppName is the APP-NAME of syslog messages. Default gatehouse.
	AppName string `yaml:"app_name"`

	// Headers are sent with each request of a webhook or to an otlp receiver. Default none.
	Headers map[string]mcp.Secret `yaml:"headers"`
	// Sign is a secret that signs the requests of a webhook, by the rules of Standard
	// Webhooks: whsec_ and 24 to 64 random bytes in base64. Default: they are not signed.
	Sign mcp.Secret `yaml:"sign"`
}

// types says for which types of sinks a key is.
type types []string

var (
	remote = types{TypeSyslog, TypeWebhook, TypeOTLP}
	byHTTP = types{TypeWebhook, TypeOTLP}
)

var (
	// sinkName matches names that are safe in labels and chains.
	sinkName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	// appName matches what RFC 5424 allows as APP-NAME.
	appName = regexp.MustCompile(`^[!-~]{1,48}$`)
)

// label is the name of the sink in metrics and chains.
func (s Sink) label() string { return cmp.Or(s.Name, s.Type) }

// place is where the records go. A sink that is changed, but not in this, goes on with its chain.
func (s Sink) place() string { return s.Type + " " + s.Path + s.URL }

// Where is the file or the host to which records go, "" for standard output. It shows no secret.
func (s Sink) Where() string {
	if s.URL == "" {
		return s.Path
	}
	scheme, rest, _ := strings.Cut(s.URL, "://")
	if host, _, _ := strings.Cut(rest, "/"); scheme != "unix" {
		host, _, _ = strings.Cut(host, "?")
		return scheme + "://" + host
	}
	return s.URL
}

func (s Sink) certificates() tlsfiles.Files {
	return tlsfiles.Files{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}
}

func (s Sink) withDefaults() Sink {
	s.Name = s.label()
	switch {
	case s.Type == TypeFile:
		s.MaxBytes, s.Sync = cmp.Or(s.MaxBytes, 100<<20), cmp.Or(s.Sync, SyncSecond)
	case slices.Contains(remote, s.Type):
		s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	}
	if s.Type == TypeSyslog {
		s.Facility, s.AppName = cmp.Or(s.Facility, "audit"), cmp.Or(s.AppName, "gatehouse")
	}
	return s
}

func (s Sink) problems() (found problems.List) {
	all := slices.Concat(types{TypeFile, TypeStdout}, remote)
	switch {
	case s.Type == "":
		found.Add("type: is needed: one of %s", strings.Join(all, ", "))
	case !slices.Contains(all, s.Type):
		found.Add("type: %q: want one of %s", s.Type, strings.Join(all, ", "))
	case s.Type == TypeFile && s.Path == "":
		found.Add("path: is needed: the file, such as /var/log/gatehouse/audit.jsonl")
	}
	if slices.Contains(all, s.Type) {
		found.Join(s.misplaced()...)
	}
	found.When(s.Name != "" && !sinkName.MatchString(s.Name),
		"name: %q: want at most 32 letters a-z, digits and -", s.Name)
	found.When(s.MaxBytes != 0 && s.MaxBytes < leastBytes, "max_bytes: %d: want at least 64KiB", s.MaxBytes)
	found.When(s.MaxAge != 0 && s.MaxAge < time.Minute, "max_age: %s: want at least 1m", s.MaxAge)
	found.At("keep", problems.Negative(s.Keep))
	switch s.Sync {
	case "", SyncAlways, SyncSecond, SyncNever:
	default:
		found.Add("sync: %q: want always, second or never", s.Sync)
	}
	if slices.Contains(remote, s.Type) {
		found.Join(s.remoteProblems()...)
	}
	return found
}

// misplaced reports keys that are for other types.
func (s Sink) misplaced() (found problems.List) {
	file, syslog := types{TypeFile}, types{TypeSyslog}
	for _, key := range []struct {
		name string
		set  bool
		of   types
	}{
		{"path", s.Path != "", file}, {"max_bytes", s.MaxBytes != 0, file}, {"max_age", s.MaxAge != 0, file},
		{"keep", s.Keep != 0, file}, {"sync", s.Sync != "", file},
		{"url", s.URL != "", remote}, {"allow_plaintext", s.AllowPlaintext, remote}, {"timeout", s.Timeout != 0, remote},
		{"ca_file", s.CAFile != "", remote}, {"cert_file", s.CertFile != "", remote}, {"key_file", s.KeyFile != "", remote},
		{"facility", s.Facility != "", syslog}, {"app_name", s.AppName != "", syslog},
		{"headers", s.Headers != nil, byHTTP}, {"sign", s.Sign != "", types{TypeWebhook}},
	} {
		found.When(key.set && !slices.Contains(key.of, s.Type), "%s: is for the type %s", key.name,
			strings.Join(key.of, ", "))
	}
	return found
}

// remoteProblems reports what is wrong with a receiver.
func (s Sink) remoteProblems() (found problems.List) {
	schemes := types{"https", "http"}
	if s.Type == TypeSyslog {
		schemes = types{"tls", "tcp", "udp", "unix"}
	}
	to, err := target(s.URL, schemes)
	switch {
	case err != nil:
		found.Add("url: %w", err)
	case to.plain && !to.loopback && !s.AllowPlaintext:
		found.Add("url: %s is only for loopback addresses; use %s, or set allow_plaintext: true", to.scheme, schemes[0])
	case to.scheme != schemes[0] && !s.certificates().IsZero():
		found.Add("ca_file, cert_file and key_file: they are for %s, with which the URL does not begin", schemes[0])
	}
	found.Join(s.certificates().Validate())
	found.When(s.Timeout < 0 || s.Timeout > mostTimeout, "timeout: %s: want at most 5m", s.Timeout)
	if _, ok := facilities[s.Facility]; s.Facility != "" && !ok {
		found.Add("facility: %q: want user, daemon, auth, authpriv, audit, or local0 to local7", s.Facility)
	}
	found.When(s.AppName != "" && !appName.MatchString(s.AppName),
		"app_name: want at most 48 printable ASCII characters without spaces")
	found.Join(s.headerProblems()...)
	return found
}
