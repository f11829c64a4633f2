package record

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
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
	KindApproval   = "approval"   // somebody approved of a call of somebody else, or refused it
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

// LastSuffix is added to the name of a file for the one beside it that holds the last anchor.
const LastSuffix = ".last"

// maxText bounds each text of a record, in bytes: clients choose names as long as they like.
const maxText = 2048

// Record is one thing that has happened. Zero fields are not written. A Record must not
// change once it has been handed on.
type Record struct {
	Time time.Time
	Kind string
	// ID is that of the call, the same in each of its rounds, in the log and in errors.
	ID string
	// Continues is the ID of the call that asked what this one answers, the first of several.
	Continues string
	// Event is what happened, for kinds other than calls; Reason says why.
	Event  string
	Reason string

	// Issuer to View are about who did it. Session is a digest (Digest) of the session's key.
	Issuer  string
	User    string
	Groups  []string
	Client  string
	Agent   string // what the client calls itself; nobody has checked it
	View    string
	Session string
	// ClientAddress and UserAgent are those of the request; nobody has checked the latter.
	ClientAddress string
	UserAgent     string
	// Revision and Era are those of the client.
	Revision string
	Era      string

	Method string
	// Name is the public name or URI, Original the server's own.
	Name     string
	Upstream string
	Original string
	// Thing is the kind of what Original names, one of the mcp.Kind constants; File the
	// server's own URI of a file of a skill.
	Thing string
	File  string
	// UpstreamRevision and UpstreamEra are those of the server.
	UpstreamRevision string
	UpstreamEra      string

	// Decision is allow, ask, deny or unknown. RuleAt is the place of the rule, file:line.
	Decision string
	Rule     string
	RuleAt   string
	// Explained says why conditions on the arguments made the decision what it is.
	Explained []string
	// Approval is what became of the question to the user, or to Approver, who is somebody else;
	// Limit is the limit that was reached.
	Approval string
	Approver string
	Limit    string

	Outcome string
	// Code is the JSON-RPC code of an error, or the HTTP status of a refusal, Error its stable name.
	Code     int
	Error    string
	Executed string
	// ServerError is the beginning of the server's own error (ServerError).
	ServerError string

	Duration     time.Duration
	RequestBytes int
	ReplyBytes   int
	Trace        string

	// ArgumentsDigest is of the arguments as the client wrote them. Arguments are the
	// arguments that a rule wants recorded, an object; ArgumentsOmitted says why they are
	// missing.
	ArgumentsDigest  string
	Arguments        mcp.Raw
	ArgumentsOmitted string

	// Hooks are the hooks that ran.
	Hooks []mcp.HookRun

	// List, Added, Removed and Changed say what is different in a list, or, with Changed only,
	// in a configuration.
	List    string
	Added   []string
	Removed []string
	Changed []string

	// Revised is the revision of a configuration file.
	Revised string
	// Count is how many things the record stands for.
	Count int64

	// Replica to Last are for anchors: who writes the chain, since when, in which version, how
	// many bytes of an incomplete record stand before this one, and the name of the file beside
	// this one that holds the last anchor.
	Replica string
	Started time.Time
	Version string
	Torn    int64
	Last    string
}

// ValuesFollow stands in a line of Explained before the values of arguments.
const ValuesFollow = ", with "

// WithoutValues returns the lines of Explained, an array, without the values of arguments.
func WithoutValues(lines mcp.Raw) mcp.Raw {
	var without []string
	lines.Elements(func(line mcp.Raw) bool {
		text, _, _ := strings.Cut(line.Text(), ValuesFollow)
		without = append(without, text)
		return true
	})
	return mcp.Strings(without)
}

// Digest stands for a text that must not be recorded itself but is too random to be guessed.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Size is about how much memory the record takes.
func (r *Record) Size() int {
	size := 640 + len(r.Arguments)
	for _, text := range [...]string{r.Reason, r.Issuer, r.User, r.Client, r.Agent, r.UserAgent, r.Name, r.Original, r.File, r.RuleAt, r.ServerError} {
		size += len(text)
	}
	for _, list := range [...][]string{r.Groups, r.Explained, r.Added, r.Removed, r.Changed} {
		for _, text := range list {
			size += 16 + len(text)
		}
	}
	return size
}
