package record

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// Kinds of records.
const (
	KindCall       = "call"       // a call of a client, allowed or refused
	KindSignIn     = "signin"     // a token that was verified, or refused
	KindSession    = "session"    // a client's session began or ended
	KindRefused    = "refused"    // a request that became no call
	KindReload     = "reload"     // the configuration was read again
	KindLists      = "lists"      // what a server offers has changed
	KindPin        = "pin"        // a server offers something that is not approved
	KindDeceit     = "deceit"     // a server offers something that deceives people or models
	KindCredential = "credential" // the gateway got a credential for a server, or was refused one
	KindApproval   = "approval"   // an approver approved of another user's call, or refused it
	KindAdmin      = "admin"      // an operator did something through the admin API
	KindAnchor     = "anchor"     // where the chain stands, perhaps signed
	KindGap        = "gap"        // records were lost here
)

// Events of anchors.
const (
	EventStart   = "start"   // a gateway began to write
	EventFile    = "file"    // likewise, or went on, with a new file
	EventRecords = "records" // there were many records, or some time has passed, since the last one
	EventStop    = "stop"    // the gateway has stopped, or the configuration has given the sink up
)

// Values of Executed.
const (
	ExecutedYes     = "yes"
	ExecutedNo      = "no"
	ExecutedUnknown = "unknown"
)

// LastSuffix ends the name of the file with the last anchor, beside the file of records.
const LastSuffix = ".last"

// maxText bounds each text of a record, in bytes: clients choose names as long as they like.
const maxText = 2048

// Record is one thing that has happened. Zero fields are not written. A Record must not
// change once it has been handed on.
type Record struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	// ID is that of the call, the same in each of its rounds, in the log and in errors.
	ID string `json:"id"`
	// Continues is the ID of the call that asked what this one answers, the first of several.
	Continues string `json:"continues"`
	// Event is what happened, for kinds other than calls; Reason says why.
	Event  string `json:"event"`
	Reason string `json:"reason"`

	// Issuer to View are about who did it. Session is a digest (Digest) of the session's key.
	Issuer  string   `json:"issuer"`
	User    string   `json:"user"`
	Groups  []string `json:"groups"`
	Client  string   `json:"client"`
	Agent   string   `json:"agent"` // what the client calls itself, unchecked
	View    string   `json:"view"`
	Session string   `json:"session"`
	// ClientAddress and UserAgent are those of the request; the latter is unchecked.
	ClientAddress string `json:"client_address"`
	UserAgent     string `json:"user_agent"`
	// Revision and Era are those of the client.
	Revision string `json:"revision"`
	Era      string `json:"era"`

	Method string `json:"method"`
	// Name is the public name or URI, Original the server's own.
	Name     string `json:"name"`
	Upstream string `json:"upstream"`
	Original string `json:"original"`
	// Thing is the kind of what Original names, one of the mcp.Kind constants; File the
	// server's own URI of a file of a skill.
	Thing string `json:"thing"`
	File  string `json:"file"`
	// UpstreamRevision and UpstreamEra are those of the server.
	UpstreamRevision string `json:"upstream_revision"`
	UpstreamEra      string `json:"upstream_era"`

	// Decision is allow, ask, deny or unknown. RuleAt is the place of the rule, file:line.
	Decision string `json:"decision"`
	Rule     string `json:"rule"`
	RuleAt   string `json:"rule_at"`
	// Explained says why conditions on the arguments made the decision what it is.
	Explained []string `json:"explained"`
	// Approval is the outcome of the question to the user, or to Approver, another user; Limit is
	// the limit that was reached.
	Approval string `json:"approval"`
	Approver string `json:"approver"`
	Limit    string `json:"limit"`

	Outcome string `json:"outcome"`
	// Code is the JSON-RPC code of an error, or the HTTP status of a refusal, Error its stable name.
	Code     int    `json:"code"`
	Error    string `json:"error_code"`
	Executed string `json:"executed"`
	// ServerError is the beginning of the server's own error (ServerError).
	ServerError string `json:"server_error"`

	Duration     time.Duration `json:"-"`
	RequestBytes int           `json:"request_bytes"`
	ReplyBytes   int           `json:"reply_bytes"`
	Trace        string        `json:"trace"`

	// ArgumentsDigest is of the arguments as the client wrote them. Arguments are the
	// arguments that a rule wants recorded, an object; ArgumentsOmitted says why they are
	// missing.
	ArgumentsDigest  string  `json:"arguments_digest"`
	Arguments        mcp.Raw `json:"arguments"`
	ArgumentsOmitted string  `json:"arguments_omitted"`

	// Hooks are the hooks that ran.
	Hooks []mcp.HookRun `json:"-"`

	// Trail is where the time of a call went; nil for none. It is not written.
	Trail *trail.Trail `json:"-"`

	// List, Added, Removed and Changed say what is different in a list, or, with Changed only,
	// in a configuration.
	List    string   `json:"list"`
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`

	// Revised is the revision of a configuration file.
	Revised string `json:"config"`
	// Count is how many things the record stands for.
	Count int64 `json:"count"`

	// Replica to Last are for anchors: who writes the chain, since when, in which version, how
	// many bytes of an incomplete record stand before this one, and the name of the file beside
	// this one that holds the last anchor.
	Replica string    `json:"replica"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Torn    int64     `json:"torn"`
	Last    string    `json:"last"`
}

// ValuesFollow stands in a line of Explained before the values of arguments.
const ValuesFollow = ", with "

// WithoutValues returns the lines of Explained without the values of arguments.
func WithoutValues(lines []string) (without []string) {
	for _, line := range lines {
		text, _, _ := strings.Cut(line, ValuesFollow)
		without = append(without, text)
	}
	return without
}

// Digest stands for a text that must not be recorded itself but is too random to be guessed.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Size is about how much memory the record takes.
func (r *Record) Size() int {
	size := 640 + len(r.Arguments)
	for _, text := range [...]string{r.Reason, r.Issuer, r.User, r.Client, r.Agent, r.UserAgent, r.Name, r.Original,
		r.File, r.RuleAt, r.ServerError} {
		size += len(text)
	}
	for _, list := range [...][]string{r.Groups, r.Explained, r.Added, r.Removed, r.Changed} {
		for _, text := range list {
			size += 16 + len(text)
		}
	}
	return size
}
