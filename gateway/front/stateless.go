package front

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// discoverTTL is the time for which a stateless client may keep what it discovered.
const discoverTTL = time.Minute

// stateless serves a self-contained message (2026-07-28): nothing is remembered between messages.
func (f *Front) stateless(p *posted) *refuse.Refusal {
	switch p.Message.Kind {
	case wire.Response:
		return refuse.Invalid("Invalid request: responses are not accepted in this revision")
	case wire.Notification: // none has a meaning over HTTP
		p.W.WriteHeader(http.StatusAccepted)
		return nil
	}
	if ref := p.checkVersion(); ref != nil {
		return ref
	}
	switch p.Message.Method { // what this revision does not have, in any form
	case mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodResourcesSubscribe,
		mcp.MethodResourcesUnsubscribe, mcp.MethodTasksResult, mcp.MethodTasksList:
		return refuse.Bad(mcp.ErrMethod(p.Message.Method))
	}
	name, err := p.checkRequest()
	if err != nil {
		return refuse.Bad(err)
	}
	x := f.endpoint.New(&p.Request, wire.Stateless())
	x.Call.Name = name
	key := home.Key{User: p.Caller.User(), ID: derivedID(p.Caller, p.Params.ClientInfo)}
	x.Call.Session = key.String()
	x.Call.Ephemeral = true
	x.Call.Caps = p.Params.Caps
	x.Call.LogLevel = p.Params.LogLevel.Text()
	if mcp.CanAsk(x.Call.Method) {
		if err := x.Retry(p.Params.Answers, p.Params.State); err != nil {
			return refuse.Bad(err)
		}
	}
	if err := extensionTasks(x, &p.Params); err != nil {
		return refuse.Bad(err)
	}
	if x.Call.Method == mcp.MethodToolsCall {
		if x.Call.ParamHeaders, err = paramHeaders(p.R.Header, f.noParams); err != nil {
			return refuse.Bad(err)
		}
	}
	waited, gone := false, x.WaitsAt != "" && x.WaitsAt != f.endpoint.Replica
	if f.deps.Cluster.Shared() && (f.deps.Upstreams.Keeps(&x.Call) ||
		f.deps.Upstreams.Differs(&x.Call) && f.homes().Exists(p.R.Context(), key)) {
		p.anywhere = len(x.Call.Round) == 0 && x.Call.Answers == nil
		switch _, _, fromReplica := cluster.Forwarded(p.R); {
		case x.WaitsAt == "":
			if ref := f.use(p, key); ref != nil {
				return ref
			}
		case x.WaitsAt == f.endpoint.Replica:
			if h, over := x.TakeUp(); h != nil {
				p.home, waited, gone = h, !over, over
			} else if fromReplica && f.homes().Leaving() { // the call is lost, and this replica takes no more
				cluster.Moved(p.W)
				return nil
			}
		case !fromReplica: // the call waits there, whichever replica owns the home now
			if ref := f.forward(p, x.WaitsAt, key); ref != nil {
				return ref
			}
		}
	}
	x.Home = p.home
	if !waited && !f.endpoint.Running.Begin() {
		return refuse.Closing()
	}
	defer f.endpoint.Running.Done()
	defer p.endUse()
	if gone {
		x.Handler = mcp.HandlerFunc(exchange.Lost)
		x.Serve(p.R.Context())
		return nil
	}
	switch x.Call.Method {
	case mcp.MethodListen:
		return x.Listen(p.R, p.Params.Notifications)
	case mcp.MethodDiscover:
		x.Handler = mcp.HandlerFunc(f.serverDiscover)
	}
	x.Serve(p.R.Context())
	return nil
}

// extensionTasks records whether a request declares the extension, and reads the answers that
// it brings for a task.
func extensionTasks(x *exchange.Exchange, p *request.Params) error {
	if mcp.DeclaresTasks(p.Caps) {
		x.Call.Tasks = mcp.ExtensionTasks
	}
	if x.Call.Method != mcp.MethodTasksUpdate {
		return nil
	}
	if p.Answers == nil {
		return refuse.InvalidParams("tasks/update needs inputResponses")
	}
	return x.ReadAnswers(p.Answers)
}

// checkVersion compares the revisions in the header and in _meta, and refuses one that is not
// served without a session.
func (p *posted) checkVersion() *refuse.Refusal {
	header, said := p.header, p.Params.Version
	switch rev := wire.Lookup(header); {
	case header == "":
		return refuse.Bad(refuse.HeaderMismatch("%s is missing", wire.HeaderVersion))
	case said == nil:
		return refuse.Bad(refuse.InvalidParams("_meta lacks %s", wire.MetaVersion))
	case string(said) != `"`+header+`"` && said.Text() != header:
		return refuse.Bad(refuse.HeaderMismatch("%s does not match the body", wire.HeaderVersion))
	case rev == nil || rev.Stateful:
		return refuse.Version(clip(header))
	}
	return nil
}

// checkRequest checks the remaining headers and members of a stateless request, and returns its routing name.
func (p *posted) checkRequest() (name string, err error) {
	if !p.Params.Caps.IsObject() {
		return "", refuse.InvalidParams("_meta lacks %s, an object", wire.MetaClientCaps)
	}
	if p.Params.ClientInfo != nil && !p.Params.ClientInfo.IsObject() {
		return "", refuse.InvalidParams("%s is no object", wire.MetaClientInfo)
	}
	if level := p.Params.LogLevel; level != nil && !wire.ValidLogLevel(level.Text()) {
		return "", refuse.InvalidParams("%s is not a level", wire.MetaLogLevel)
	}
	method := p.Message.Method
	if err := checkHeader(p.R.Header, wire.HeaderMethod, method, false); err != nil {
		return "", err
	}
	name, err = p.Params.RoutingName(method)
	if err != nil {
		return "", err
	}
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead,
		mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return name, checkHeader(p.R.Header, wire.HeaderName, name, true)
	}
	return name, nil
}

// derivedID replaces the session id of a stateless client: it is the same for all requests of one
// program of one user to one view.
func derivedID(caller mcp.Caller, clientInfo mcp.Raw) string {
	var buf [512]byte
	b := append(append(buf[:0], caller.ClientID...), 0)
	b = append(b, clientInfo...)
	if caller.View != "" {
		b = append(append(b, 0), caller.View...)
	}
	sum := sha256.Sum256(b)
	return home.Derived(hex.EncodeToString(sum[:8]))
}

// serverDiscover is the handler of server/discover.
func (f *Front) serverDiscover(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	result, caps, err := f.endpoint.Discover(ctx, c)
	if err != nil {
		return nil, err
	}
	rev := wire.Stateless()
	out := mcp.Object("supportedVersions", mcp.Strings([]string{rev.Name}), "capabilities", rev.ServerCaps(caps))
	for _, name := range []string{"instructions", "ttlMs", "cacheScope"} {
		if value, ok := result.Member(name); ok {
			out = out.With(name, value)
		}
	}
	if ttl, _ := out.Member("ttlMs"); !exchange.IsDuration(ttl) {
		out = out.With("ttlMs", mcp.Int(discoverTTL.Milliseconds()))
	}
	if scope, _ := out.Member("cacheScope"); scope.Text() != "public" {
		out = out.With("cacheScope", mcp.Raw(`"private"`))
	}
	return &mcp.Reply{Result: out}, nil
}

// checkHeader requires a header, which may be encoded, to be there once and to agree with the
// body (2026-07-28 basic/transports/streamable-http#server-validation).
func checkHeader(h http.Header, name, want string, encoded bool) error {
	lines := h[name]
	switch {
	case len(lines) == 0:
		return refuse.HeaderMismatch("%s is missing", name)
	case len(lines) > 1:
		return refuse.HeaderMismatch("%s stands there twice", name)
	}
	got := lines[0]
	if encoded && (got != want || strings.HasPrefix(got, "=?")) {
		var err error
		if got, err = wire.DecodeHeader(got); err != nil {
			return refuse.HeaderMismatch("%s is malformed", name)
		}
	}
	if got != want {
		return refuse.HeaderMismatch("%s does not match the body", name)
	}
	return nil
}

// paramHeaders returns the Mcp-Param-* headers unread: only the upstream's package knows the tool's
// schema. Without any it returns none, which is not nil: nil would mean that nothing is to be checked.
func paramHeaders(h http.Header, none map[string]string) (map[string]string, error) {
	found := none
	for name, lines := range h {
		if !strings.HasPrefix(name, wire.HeaderParamPrefix) || len(name) == len(wire.HeaderParamPrefix) {
			continue
		}
		if len(lines) > 1 {
			return nil, refuse.HeaderMismatch("%s stands there twice", name)
		}
		if len(found) == 0 {
			found = make(map[string]string)
		}
		found[strings.ToLower(name[len(wire.HeaderParamPrefix):])] = lines[0]
	}
	return found, nil
}
