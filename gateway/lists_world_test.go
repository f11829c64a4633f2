package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// worldNameLength is naming.max_length in a listWorld.
const worldNameLength = 24

// listWorld is a gateway with everything around it, and what should be seen through it.
type listWorld struct {
	servers  []*worldServer
	clients  []*worldClient
	policy   policy.Config
	views    []view.Config
	pageSize int // of the gateway
}

// worldKind is a list, and the method that uses what is on it.
type worldKind struct{ name, list, use, key string }

var (
	worldTools     = worldKind{mcp.KindTools, mcp.MethodToolsList, mcp.MethodToolsCall, "name"}
	worldPrompts   = worldKind{mcp.KindPrompts, mcp.MethodPromptsList, mcp.MethodPromptsGet, "name"}
	worldResources = worldKind{mcp.KindResources, mcp.MethodResourcesList, mcp.MethodResourcesRead, "uri"}
	worldTemplates = worldKind{mcp.KindResources, mcp.MethodResourceTemplatesList, mcp.MethodComplete, "uriTemplate"}
	worldSkills    = worldKind{mcp.KindSkills, mcp.MethodSkillsList, mcp.MethodSkillsGet, "name"}
	worldKinds     = []worldKind{worldTools, worldPrompts, worldResources, worldTemplates, worldSkills}
)

// named reports whether items have names, which get prefixes, and not URIs.
func (k worldKind) named() bool { return k.key == "name" }

// hasArguments reports whether calls have arguments of which conditions know.
func (k worldKind) hasArguments() bool { return k == worldTools || k == worldPrompts }

// declared is what a client declares.
type declared map[string]bool

var canDeclare = []string{"form", "url", "sampling", "sampling tools", "roots", mcp.TasksExtension, "com.example/x"}

func (d declared) fits(needs string) bool {
	without, negative := strings.CutPrefix(needs, "no ")
	return needs == "" || d[without] != negative
}

// worldEntry is an entry of a list of a server.
type worldEntry struct {
	native string
	needs  string // what clients have to declare, or "no " and what they must not; "" for nothing
	varies bool   // other clients see it with another title, instead of not at all
	described,
	app bool // if it is a tool, it has _meta with a URI
	times    int  // how often it is on the list
	conflict bool // each time with another title
}

// raw is the entry as its server writes it under a name.
func (e *worldEntry) raw(k worldKind, title, name, description string, rename func(uri string) string) string {
	out := `{ "title":`
	if k == worldSkills { // members are rewritten
		out = `{"title":`
	}
	out += strconv.Quote(title) + `,"` + k.key + `": ` + strconv.Quote(name)
	if e.described || description != "" {
		out += `,"description":` + strconv.Quote(cmp.Or(description, "of "+e.native))
	}
	if !e.described && description != "" { // it is put at the end
		out = strings.TrimSuffix(out, `,"description":`+strconv.Quote(description))
	}
	if k.key != "name" {
		out += `,"name": "n"`
	}
	if k.list == mcp.MethodToolsList {
		out += `, "inputSchema":{"type":"object" }`
	}
	if k == worldSkills {
		out += `,"uri":` + strconv.Quote(rename(skillFile(e.native))) + `,"frontmatter":{"name":"` + e.native +
			`", "description":"d"},"resources":"dynamic"`
	}
	if e.app && k.list == mcp.MethodToolsList {
		out += `,"_meta":{"ui":{"resourceUri":` + strconv.Quote(rename("ui://app/a")) + `}, "x":[1.0]}`
	} else {
		out += `,"_meta":{"anthropic/alwaysLoad":true,"ui":{ }}`
	}
	if !e.described && description != "" {
		out += `,"description":` + strconv.Quote(description)
	}
	return out + "}"
}

func same(uri string) string { return uri }

// worldServer is a server. It implements catalog.Upstream.
type worldServer struct {
	name                    string
	prefix                  *string
	perUser                 bool
	hasSkills, hasResources bool // it declares them
	keeps                   bool // it has a session for each client
	open                    bool // and has told of all lists there
	page                    int  // size of its pages
	later                   map[string][]*worldEntry
	// until the first page of a list ends, by method; nothing for lists of which it says nothing
	ttls    map[string]time.Duration
	untold  map[string]bool // it says nothing of the last page of a list
	private map[string]bool // it says so of the last page of a list

	classes []declared // as which the gateway knows it

	mu    sync.Mutex               // guards the fields below
	began time.Time                // when it got these lists
	lists map[string][]*worldEntry // by method
	used  []string                 // what was called
}

// newLists gives the server lists.
func (s *worldServer) newLists(lists map[string][]*worldEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists, s.began = lists, time.Now()
}

// hints are what the server says of a page: until when it is valid, and whether it is the user's alone.
func (s *worldServer) hints(k worldKind, page int, last bool) (expires time.Time, private bool) {
	if ttl := s.ttls[k.list]; ttl > 0 && !(last && s.untold[k.list]) {
		expires = s.began.Add(ttl + time.Duration(page)*time.Second)
	}
	return expires, last && s.private[k.list]
}

// listed is an entry as some clients see it.
type listed struct {
	*worldEntry
	title string
}

// direct returns what clients see that ask the server itself.
func (s *worldServer) direct(k worldKind, d declared) (all []listed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.lists[k.list] {
		title := "a"
		if !d.fits(e.needs) {
			if !e.varies {
				continue
			}
			title = "b"
		}
		for i := range e.times {
			if e.conflict && title == "a" {
				title = fmt.Sprint("a", i)
			}
			all = append(all, listed{e, title})
		}
	}
	return all
}

func (s *worldServer) Name() string { return s.name }

func (s *worldServer) Handle(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
	if call.Method == mcp.MethodDiscover {
		capabilities := mcp.Raw(`{"tools":{},"prompts":{},"completions":{}}`)
		if s.hasResources {
			capabilities = capabilities.With("resources", mcp.Raw("{}"))
		}
		if s.hasSkills {
			capabilities = capabilities.With("skills", mcp.Raw("{}"))
		}
		return &mcp.Reply{Result: mcp.Object("capabilities", capabilities)}, nil
	}
	for _, k := range worldKinds {
		if !s.has(k) {
			continue
		}
		switch call.Method {
		case k.list:
			return s.list(k, call)
		case k.use:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.used = append(s.used, fmt.Sprintf("%s: %s %s for %s with %s", s.name, k.use, call.Name,
				call.Caller.Subject, call.Caps))
			return &mcp.Reply{Result: mcp.Raw(`{"completion":{"values":[]},"instructions":"Do it."}`)}, nil
		}
	}
	return nil, mcp.ErrMethod(call.Method)
}

// has reports whether the server has a list.
func (s *worldServer) has(k worldKind) bool {
	switch k.name {
	case mcp.KindResources:
		return s.hasResources
	case mcp.KindSkills:
		return s.hasSkills
	}
	return true
}

// wasUsed returns what was called since it was asked last.
func (s *worldServer) wasUsed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.used = nil }()
	return s.used
}

func (s *worldServer) list(k worldKind, call *mcp.Call) (*mcp.Reply, error) {
	d := s.declared(call.Caps, call.Caller.Subject)
	if _, client, ok := strings.Cut(call.Session, ":"); ok && s.keeps {
		d = d.in(client)
	}
	all := s.direct(k, d)
	cursor, _ := call.Params.Member("cursor")
	from, _ := strconv.Atoi(cursor.Text()) // none is the first page
	to := min(from+s.page, len(all))
	list := &mcp.List{}
	list.Expires, list.Private = s.hints(k, from/s.page, to == len(all))
	for _, e := range all[from:to] {
		list.Items = append(list.Items, mcp.Item{Name: e.native, Raw: mcp.Raw(e.raw(k, e.title, e.native, "", same))})
	}
	if to < len(all) {
		next := strconv.Itoa(to)
		list.Next = &next
	}
	return &mcp.Reply{List: list}, nil
}

// declared is what decides what somebody sees: what is declared, and whose credential it is if each
// user has one.
func (s *worldServer) declared(caps mcp.Raw, user string) declared {
	d := readDeclared(caps)
	if s.perUser {
		d["user "+user] = true
	}
	return d
}

// readDeclared reads the capabilities in a call. A gateway that looks for itself declares
// everything.
func readDeclared(caps mcp.Raw) declared {
	d := make(declared)
	if caps == nil {
		for _, name := range canDeclare {
			d[name] = true
		}
		return d
	}
	var all map[string]map[string]any
	if err := json.Unmarshal(caps, &all); err != nil {
		panic(err)
	}
	has := func(in, name string) bool { _, ok := all[in][name]; return ok }
	elicitation, sampling, roots := all["elicitation"] != nil, all["sampling"] != nil, all["roots"] != nil
	d["url"], d["form"] = has("elicitation", "url"), has("elicitation", "form") ||
		elicitation && !has("elicitation", "url")
	d["sampling"], d["sampling tools"], d["roots"] = sampling, has("sampling", "tools"), roots
	for name := range all["extensions"] {
		d[name] = true
	}
	return d
}

// worldClient is a client with its user, at an endpoint.
type worldClient struct {
	user, view string
	id         string // so that nobody shares what servers tell only this user at this client
	caps       string
	flag       string // its argument in all calls, "" for none
}

func (c *worldClient) String() string {
	at := ""
	if c.view != "" {
		at = " at view " + c.view
	}
	return fmt.Sprintf("%s%s declaring %s", c.user, at, c.caps)
}

// meet notes that the gateway knows of a client.
func (w *listWorld) meet(c *worldClient) {
	for _, s := range w.servers {
		if s.classes == nil {
			s.classes = []declared{readDeclared(nil), {}}
		}
		if w.varies(s) {
			s.classes = append(s.classes, readDeclared(mcp.Raw(c.caps)))
		}
	}
}

// varies reports whether a server shows something else to clients that declare nothing.
func (w *listWorld) varies(s *worldServer) bool {
	return !s.perUser && slices.ContainsFunc(worldKinds,
		func(k worldKind) bool { return !w.same(s, k, readDeclared(nil), declared{}) })
}

// same reports whether a server adds the same to a list, whichever of the two is declared.
func (w *listWorld) same(s *worldServer, k worldKind, one, other declared) bool {
	return slices.EqualFunc(w.own(s, k, one), w.own(s, k, other), func(a, b offer) bool { return a.listed == b.listed })
}

// change gives the servers their later lists. The gateway forgets as which clients it looked
// at a server that shows the same to all.
func (w *listWorld) change() {
	for _, s := range w.servers {
		s.newLists(s.later)
		if !w.varies(s) {
			s.classes = nil
		}
	}
}

// offer is an entry as the gateway shows it.
type offer struct {
	listed
	server *worldServer
	public string
	raw    string
}

// own returns what a server adds to a list of clients that declare d, by public name. What it
// gives one name twice is left out, unless it is the same.
func (w *listWorld) own(s *worldServer, k worldKind, d declared) (all []offer) {
	byName := make(map[string][]listed)
	for _, e := range s.direct(k, d) {
		if public, ok := w.rename(s, k, e.native); ok {
			byName[public] = append(byName[public], e)
		}
	}
	for public, entries := range byName {
		if !slices.ContainsFunc(entries, func(e listed) bool { return e != entries[0] }) {
			all = append(all, offer{listed: entries[0], server: s, public: public})
		}
	}
	slices.SortFunc(all, func(a, b offer) int { return cmp.Compare(a.public, b.public) })
	return all
}

// seenBy returns what decides what a client sees of a server.
func (s *worldServer) seenBy(c *worldClient) declared {
	d := s.declared(mcp.Raw(c.caps), c.user)
	if s.open {
		d = d.in(c.id)
	}
	return d
}

// in adds that something is declared in the session of a client.
func (d declared) in(client string) declared {
	d = maps.Clone(d)
	d["session"], d["session of "+client] = true, true
	return d
}

// differs reports whether a server shows another list in a client's own session. Of skills, it matters
// also what is left out: it is known whose their files are.
func (w *listWorld) differs(s *worldServer, k worldKind, c *worldClient) bool {
	others, own := s.declared(mcp.Raw(c.caps), c.user), s.seenBy(c)
	natives := func(d declared) (all []string) {
		for _, e := range s.direct(k, d) {
			all = append(all, e.native)
		}
		return slices.Compact(all)
	}
	return !w.same(s, k, own, others) || k == worldSkills && !slices.Equal(natives(own), natives(others))
}

// known returns as whom a server was looked at, as far as that matters to a client: where each user has
// other lists, only as that client.
func (s *worldServer) known(c *worldClient) []declared {
	known := s.classes
	if s.perUser {
		known = []declared{s.declared(mcp.Raw(c.caps), c.user)}
	}
	if s.open {
		known = append(slices.Clone(known), s.seenBy(c))
	}
	return known
}

// unambiguous returns a function that reports whether a name stands for one thing only, among
// all that any class of clients sees. Nobody sees a name that does not.
func (w *listWorld) unambiguous(k worldKind, c *worldClient) func(o offer) bool {
	things := make(map[string]map[string]bool)
	for _, s := range w.servers {
		for _, d := range s.known(c) {
			for _, o := range w.own(s, k, d) {
				if w.mayHave(s, k, o.public) {
					if things[o.public] == nil {
						things[o.public] = make(map[string]bool)
					}
					things[o.public][s.name+"/"+o.native] = true
				}
			}
		}
	}
	return func(o offer) bool { return w.mayHave(o.server, k, o.public) && len(things[o.public]) == 1 }
}

// merged returns the merged list of a client, without policy and views.
func (w *listWorld) merged(k worldKind, c *worldClient) (all []offer) {
	shown := w.unambiguous(k, c)
	for _, s := range w.servers {
		for _, o := range w.own(s, k, s.seenBy(c)) {
			if shown(o) {
				o.raw = o.worldEntry.raw(k, o.title, o.public, "", s.uri)
				all = append(all, o)
			}
		}
	}
	return all
}

// shown returns the list of a kind as a client should see it.
func (w *listWorld) shown(k worldKind, c *worldClient) (all []offer) {
	all = w.merged(k, c)
	if c.view != "" {
		all = w.arrange(c, w.view(c.view), k, all)
	}
	return slices.DeleteFunc(all, func(o offer) bool { return !w.may(c, k, o.server, o.native) })
}

// arrange arranges a client's list as a view says.
func (w *listWorld) arrange(c *worldClient, v view.Config, k worldKind, all []offer) []offer {
	shows := func(o offer) bool { return anyFits(v.Show, k, o.server, o.native, possible) }
	all = slices.DeleteFunc(all, func(o offer) bool { return !shows(o) })
	uses := map[string]int{"load_skill": 1, "describe_tools": 1}
	counted, unambiguous := make(map[string]bool), w.unambiguous(k, c)
	for _, s := range w.servers {
		for _, d := range s.known(c) {
			for _, o := range w.own(s, k, d) {
				if shows(o) && unambiguous(o) && !counted[o.public] {
					counted[o.public] = true
					uses[o.public]++
					if short := s.short(o.public); short != o.public {
						uses[short]++
					}
				}
			}
		}
	}
	for i, o := range all {
		short, description := o.server.short(o.public), v.Descriptions[k.name+":"+o.server.name+"/"+o.native]
		begins := slices.ContainsFunc(w.servers,
			func(s *worldServer) bool { return s.front() != "" && strings.HasPrefix(short, s.front()) })
		if v.DropPrefixes && k != worldSkills && k.named() && short != "" && uses[short] == 1 && !begins {
			all[i].public = short
		}
		all[i].raw = o.worldEntry.raw(k, o.title, all[i].public, description, o.server.uri)
	}
	rank := func(o offer) int {
		for i, pattern := range v.Order {
			if fits(pattern, k, o.server, o.native, possible) {
				return i
			}
		}
		return len(v.Order)
	}
	slices.SortStableFunc(all, func(a, b offer) int { return rank(a) - rank(b) })
	return all
}

// validity returns until when a client's list is valid, zero if a server has not said it of all its
// pages, and whether it has to be private to its user.
func (w *listWorld) validity(k worldKind, c *worldClient) (expires time.Time, private bool) {
	unknown := false
	for _, s := range w.servers {
		if private = private || s.perUser; !s.has(k) {
			continue
		}
		d := s.seenBy(c)
		if !w.differs(s, k, c) {
			d = s.declared(mcp.Raw(c.caps), c.user)
		}
		all := s.direct(k, d)
		for page := 0; page == 0 || page*s.page < len(all); page++ {
			until, own := s.hints(k, page, (page+1)*s.page >= len(all))
			if until.IsZero() {
				unknown = true
			} else if expires.IsZero() || until.Before(expires) {
				expires = until
			}
			private = private || own
		}
		private = private || w.differs(s, k, c) || slices.ContainsFunc(s.classes, func(d declared) bool {
			return !w.same(s, k, d, readDeclared(nil))
		})
	}
	if unknown {
		expires = time.Time{}
	}
	return expires, private
}

// declares reports whether a list is declared to a client: if a server has it of which the client may
// know, and for skills also if it has resources, which may be some. Of skills, policy decides apart from
// the server.
func (w *listWorld) declares(k worldKind, c *worldClient) bool {
	return slices.ContainsFunc(w.servers, func(s *worldServer) bool {
		if k == worldSkills {
			return w.mayHaveSkills(s) && w.knows(c, s) && w.knowsOf(c, s, mcp.KindSkills)
		}
		return s.has(k) && w.knows(c, s)
	})
}

func (w *listWorld) mayHaveSkills(s *worldServer) bool { return s.hasSkills || s.hasResources }

// offered reports whether there is a list at all, for whomever.
func (w *listWorld) offered(k worldKind) bool {
	return slices.ContainsFunc(w.servers,
		func(s *worldServer) bool { return s.has(k) || k == worldSkills && w.mayHaveSkills(s) })
}

// open reports whether all users see the same, as far as their servers tell them the same.
func (w *listWorld) open() bool {
	return w.policy.Default == policy.DefaultAllow && len(w.policy.Rules) == 0 && len(w.views) == 0
}

// destination is where a call goes: a server, or nil for nobody.
type destination struct {
	server *worldServer
	native string
	unsure bool // the world does not say
}

// leads returns where a name should lead when a client uses it to which all of a list is shown.
func (w *listWorld) leads(k worldKind, c *worldClient, all []offer, name string) destination {
	for _, o := range all {
		if o.public == name || k.named() && o.server.full(w, k, o.native) == name { // full names stay valid
			return destination{server: o.server, native: o.native}
		}
	}
	if k.named() {
		return destination{}
	}
	to := w.owner(c, name)
	switch { // a URI need not be listed: it may be made from a template, or come from a result
	case to.server == nil:
	case !to.server.hasResources, !w.may(c, k, to.server, to.native),
		strings.Contains(name, "{") && !slices.ContainsFunc(all,
			func(o offer) bool { return o.server == to.server && o.native == to.native }):
		to.server = nil
	}
	return to
}

// owner returns whose a URI is: of the server that is named in it; else of the one without
// a prefix; else, where all have prefixes, of the only server that lists it.
func (w *listWorld) owner(c *worldClient, uri string) (to destination) {
	plain := slices.ContainsFunc(w.servers, func(s *worldServer) bool { return s.front() == "" && s.hasResources })
	var has []*worldServer
	for _, s := range w.servers {
		if s.front() != "" {
			if native := s.strip(uri); native != "" {
				return destination{server: s, native: native}
			}
		}
		if plain == (s.front() == "") && slices.ContainsFunc(s.known(c), func(d declared) bool {
			return slices.ContainsFunc(slices.Concat(w.own(s, worldResources, d), w.own(s, worldTemplates, d)),
				func(o offer) bool { return o.native == uri })
		}) {
			has = append(has, s)
		}
	}
	switch {
	case len(has) == 1:
		return destination{server: has[0], native: uri}
	case len(has) == 0 && plain:
		return destination{unsure: true}
	}
	return destination{}
}

// names returns names to try: all that anybody sees or might guess.
func (w *listWorld) names(k worldKind) (all []string) {
	for _, s := range w.servers {
		for _, e := range s.lists[k.list] {
			all = append(all, e.native, s.front()+e.native, s.name+e.native, s.uri(e.native))
			if public, ok := w.rename(s, k, e.native); ok {
				all = append(all, public, s.short(public), public+"x", strings.ToUpper(public))
			}
		}
		if k.named() {
			all = append(all, s.front()+"none", s.front())
		} else {
			all = append(all, s.uri("mem:none"))
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all,
		func(name string) bool { return name == "" || name == "load_skill" || name == "describe_tools" })
}
