package front

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// discoverTTL is how long a stateless client may keep what it discovered.
const discoverTTL = time.Minute

// stateless serves a self-contained message (2026-07-28): nothing is remembered between messages.
func (f *Front) stateless(p *posted) *refuse.Refusal {
	switch p.message.Kind {
	case wire.Response:
		return refuse.Invalid("Invalid request: responses are not accepted in this revision")
	case wire.Notification: // none has a meaning over HTTP
		p.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if ref := p.checkVersion(); ref != nil {
		return ref
	}
	switch p.message.Method { // what this revision does not have, in any form
	case mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe,
		mcp.MethodTasksResult, mcp.MethodTasksList:
		return refuse.Bad(mcp.ErrMethod(p.message.Method))
	}
	name, err := p.checkRequest()
	if err != nil {
		return refuse.Bad(err)
	}
	x := f.newExchange(p, wire.Stateless())
	x.call.Name = name
	key := home.Key{User: p.caller.User(), ID: derivedID(p.caller, p.params.clientInfo)}
	x.call.Session = key.String()
	x.call.Ephemeral = true
	x.call.Caps = p.params.caps
	x.call.LogLevel = p.params.logLevel.Text()
	if mcp.CanAsk(x.call.Method) {
		if err := x.retry(p.params); err != nil {
			return refuse.Bad(err)
		}
	}
	if err := x.extensionTasks(p.params); err != nil {
		return refuse.Bad(err)
	}
	if x.call.Method == mcp.MethodToolsCall {
		if x.call.ParamHeaders, err = paramHeaders(p.r.Header, f.noParams); err != nil {
			return refuse.Bad(err)
		}
	}
	var waited *waitingCall
	if f.deps.Cluster.Shared() && (f.deps.Upstreams.Keeps(&x.call) || f.deps.Upstreams.Differs(&x.call) && f.homes().Exists(p.r.Context(), key)) {
		p.anywhere = len(x.call.Round) == 0 && x.call.Answers == nil
		switch _, _, fromReplica := cluster.Forwarded(p.r); {
		case x.waitsAt == "":
			if ref := f.use(p, key); ref != nil {
				return ref
			}
		case x.waitsAt == f.prefix:
			if waited = f.waiting.take(x.waiting(x.call.Round)); waited != nil {
				p.home = waited.home
			} else if fromReplica && f.homes().Leaving() { // the call is lost, and this replica takes no more
				cluster.Moved(p.w)
				return nil
			}
		case !fromReplica: // the call waits there, whichever replica owns the home now
			if ref := f.forward(p, x.waitsAt, key); ref != nil {
				return ref
			}
		}
	}
	x.home = p.home
	if (waited == nil || waited.lost) && !f.begin() {
		return refuse.Closing()
	}
	defer f.done()
	if waited != nil && waited.lost || x.waitsAt != "" && x.waitsAt != f.prefix {
		x.handler = mcp.HandlerFunc(lost)
		x.serve(p.r.Context())
		return nil
	}
	switch x.call.Method {
	case mcp.MethodListen:
		return x.listen(p.r, p.params.notifications)
	case mcp.MethodDiscover:
		x.handler = mcp.HandlerFunc(f.serverDiscover)
	}
	x.serve(p.r.Context())
	return nil
}

// checkVersion compares the revisions in the header and in _meta, and refuses one that is not
// served without a session.
func (p *posted) checkVersion() *refuse.Refusal {
	header, said := p.header, p.params.version
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

// checkRequest checks what else a stateless request must say, and returns its routing name.
func (p *posted) checkRequest() (name string, err error) {
	if !p.params.caps.IsObject() {
		return "", refuse.InvalidParams("_meta lacks %s, an object", wire.MetaClientCaps)
	}
	if p.params.clientInfo != nil && !p.params.clientInfo.IsObject() {
		return "", refuse.InvalidParams("%s is no object", wire.MetaClientInfo)
	}
	if level := p.params.logLevel; level != nil && !wire.ValidLogLevel(level.Text()) {
		return "", refuse.InvalidParams("%s is not a level", wire.MetaLogLevel)
	}
	method := p.message.Method
	if err := checkHeader(p.r.Header, wire.HeaderMethod, method, false); err != nil {
		return "", err
	}
	name, err = p.params.routingName(method)
	if err != nil {
		return "", err
	}
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead,
		mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return name, checkHeader(p.r.Header, wire.HeaderName, name, true)
	}
	return name, nil
}

// derivedID stands for the session id of a stateless client: it is the same for all requests
// of one program of one user to one view.
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
	result, caps, err := f.discover(ctx, c)
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
	if ttl, _ := out.Member("ttlMs"); !isDuration(ttl) {
		out = out.With("ttlMs", mcp.Int(discoverTTL.Milliseconds()))
	}
	if scope, _ := out.Member("cacheScope"); scope.Text() != "public" {
		out = out.With("cacheScope", mcp.Raw(`"private"`))
	}
	return &mcp.Reply{Result: out}, nil
}
