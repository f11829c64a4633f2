package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// catalogPage shows the entries of a list that a caller gets, and why not the rest.
var catalogPage = page{path: "/catalog", title: "Catalog as …", menu: "Catalog", look: "catalog",
	role: admin.RoleViewer, show: showCatalog}

// toolPage shows one tool as a caller gets it, and tries it.
var toolPage = page{path: "/catalog/tool", title: "One entry", look: "tool", role: admin.RoleViewer, show: showTool}

// tryTool calls a tool as its visitor. The answer is the page of the tool: a result does not fit into
// a URL.
var tryTool = action{path: "/catalog/tool", role: admin.RoleOperator, do: func(v *visit) error {
	data, err := newTool(v)
	if err != nil {
		return err
	}
	if err := data.try(v); err != nil {
		return err
	}
	v.render(http.StatusOK, toolPage, data)
	return nil
}}

const (
	mostEntries = 200 // on a page
	mostKnown   = 500 // records that are searched for callers
)

// listed kinds, and what clients can declare, with their JSON within ClientCapabilities.
var (
	listKinds = []string{"tools", "prompts", "resources", "templates", "skills"}
	declares  = []declared{
		{"form", "asks its user in a form", `{"elicitation":{"form":{}}}`, false},
		{"url", "sends its user to a URL", `{"elicitation":{"url":{}}}`, false},
		{"sampling", "lets servers use its model", `{"sampling":{}}`, false},
		{"roots", "has roots", `{"roots":{}}`, false},
		{"tasks", "knows tasks", `{"extensions":{"` + mcp.TasksExtension + `":{}}}`, false},
		{"ui", "shows apps", `{"extensions":{"` + mcp.UIExtension + `":{"mimeTypes":["text/html;profile=mcp-app"]}}}`, false},
	}
)

// declared is a capability that a client may declare.
type declared struct {
	Name, Text, JSON string
	Chosen           bool
}

// asCaller is the caller in a question for a list, as in the form and the URL.
type asCaller struct {
	User, Groups, Scopes, Client, Issuer, View, Kind string
	Kinds                                            []string
	Declares                                         []declared
	Users, Clients, Views                            []string // that are known
	// AsOf is the time of the user's last call, with the groups above; zero if they were typed. Unknown
	// says that no call of the user is kept, so that no groups are known.
	AsOf    time.Time
	Unknown bool
}

// Query returns the parameters of a page about the same caller.
func (c asCaller) Query(more ...string) string {
	q := make(url.Values)
	for i, value := range []string{c.User, c.Groups, c.Scopes, c.Client, c.Issuer, c.View, c.Kind} {
		if value != "" {
			q.Set([]string{"user", "groups", "scopes", "client", "issuer", "view", "kind"}[i], value)
		}
	}
	for _, d := range c.Declares {
		if d.Chosen {
			q.Add("can", d.Name)
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return "?" + q.Encode()
}

// methods are those that call the items of a list.
var methods = map[string]string{
	mcp.KindTools: mcp.MethodToolsCall, mcp.KindPrompts: mcp.MethodPromptsGet, mcp.KindResources: mcp.MethodResourcesRead,
	mcp.KindSkills: mcp.MethodSkillsGet,
}

// Explain returns the parameters of the page with the decision of policy on a call of an entry.
func (c asCaller) Explain(upstream, original string) string {
	return c.Query("method", methods[c.Kind], "name", upstream+"/"+original)
}

func newCaller(v *visit) asCaller {
	c := asCaller{
		User: v.form("user"), Groups: v.form("groups"), Scopes: v.form("scopes"), Client: v.form("client"),
		Issuer: v.form("issuer"),
		View:   v.form("view"), Kind: v.form("kind"), Kinds: listKinds, Declares: slices.Clone(declares),
	}
	if !slices.Contains(listKinds, c.Kind) {
		c.Kind = mcp.KindTools
	}
	for i := range c.Declares {
		c.Declares[i].Chosen = slices.Contains(v.r.Form["can"], c.Declares[i].Name)
	}
	return c
}

// question asks about the caller.
func (c asCaller) question() (admin.ListQuestion, error) {
	caps, err := c.capabilities()
	return admin.ListQuestion{
		Kind: c.Kind, Issuer: c.Issuer, User: c.User, Groups: listed(c.Groups), Scopes: listed(c.Scopes), Client: c.Client,
		View: c.View, Capabilities: caps,
	}, err
}

// capabilities returns those that the client declares, as one object.
func (c asCaller) capabilities() (mcp.Raw, error) {
	all := make(map[string]map[string]any)
	for _, d := range c.Declares {
		if !d.Chosen {
			continue
		}
		var one map[string]map[string]any
		if err := json.Unmarshal([]byte(d.JSON), &one); err != nil {
			return nil, err
		}
		for name, members := range one {
			if all[name] == nil {
				all[name] = make(map[string]any)
			}
			for member, value := range members {
				all[name][member] = value
			}
		}
	}
	text, err := json.Marshal(all)
	return mcp.Raw(text), err
}

// suggest finds the users, clients and views that are known.
func (c *asCaller) suggest(v *visit) {
	c.Views = viewsOf(v)
	page, err := ask(v, admin.ListDecisions, ofKind(mostKnown, record.KindCall))
	if err != nil {
		return // they are suggestions
	}
	add := func(to *[]string, name string) {
		if name != "" && text(name, mostShort) == name && len(*to) < 50 && !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	for _, d := range page.Decisions {
		add(&c.Users, d.User)
		add(&c.Clients, d.Client)
	}
}

// viewsOf returns the names of the views, none if they are not known.
func viewsOf(v *visit) (names []string) {
	state, err := ask(v, admin.GetState, admin.None{})
	if err != nil {
		return nil
	}
	for _, view := range state.Views {
		names = append(names, view.Name)
	}
	return names
}

// fillGroups takes the groups of the user's last call or sign-in, if none are typed.
func (c *asCaller) fillGroups(v *visit) {
	if c.User == "" || c.Groups != "" {
		return
	}
	q := ofKind(20, record.KindCall, record.KindSignIn)
	q.User = c.User
	page, err := ask(v, admin.ListDecisions, q)
	at := slices.IndexFunc(page.Decisions, func(d admin.Decision) bool {
		return d.User == c.User && (c.Issuer == "" || c.Issuer == d.Issuer) &&
			!slices.ContainsFunc(d.Groups, func(g string) bool { return strings.Contains(g, ",") })
	})
	if c.Unknown = err != nil || at < 0; c.Unknown {
		return
	}
	last := page.Decisions[at]
	c.Groups, c.AsOf, c.Issuer = strings.Join(last.Groups, ", "), last.Time, cmp.Or(c.Issuer, last.Issuer)
}

// askLists asks for a list. problem describes a mistake in the question.
func (v *visit) askLists(q admin.ListQuestion) (a admin.ListAnswer, problem string, err error) {
	a, err = ask(v, admin.ListAs, q)
	if why, bad := refused(err, http.StatusBadRequest); bad {
		return a, why, nil
	}
	return a, "", err
}

type catalogData struct {
	As        asCaller
	Answer    admin.ListAnswer
	Problem   string
	From      int    // number of entries before those on the page
	Next, New string // the query of the next page, and of the first one
}

func showCatalog(v *visit) (any, error) {
	d := catalogData{As: newCaller(v)}
	d.As.suggest(v)
	d.As.fillGroups(v)
	q, err := d.As.question()
	if err != nil {
		return nil, err
	}
	d.From, _ = strconv.Atoi(v.form("from")) // anything but a number means the beginning
	d.From = max(d.From, 0)
	q.Offset, q.Limit = d.From, mostEntries
	if d.Answer, d.Problem, err = v.askLists(q); err != nil {
		return nil, err
	}
	if d.Answer.Next > 0 {
		d.Next = d.As.Query("from", strconv.Itoa(d.Answer.Next))
	}
	d.New = d.As.Query()
	return d, nil
}

type toolData struct {
	As                asCaller
	Name              string
	Entries           []admin.ListEntry
	Notes             []string
	Problem           string
	Arguments         string // in the form
	Tried             *admin.Tried
	Result            string // for people
	TryProblem        string
	Definition, Whole string // of the first entry, for people
}

func showTool(v *visit) (any, error) { return newTool(v) }

// newTool finds the tool that the URL, or the form, names.
func newTool(v *visit) (*toolData, error) {
	d := &toolData{As: newCaller(v), Name: v.form("name"), Arguments: v.form("arguments")}
	q, err := d.As.question()
	if err != nil {
		return nil, err
	}
	if d.Name == "" {
		d.Problem = "Which one? Choose it in the catalog."
		return d, nil
	}
	q.Name = d.Name
	a, problem, err := v.askLists(q)
	if d.Entries, d.Notes, d.Problem = a.Entries, a.Notes, problem; err != nil || len(d.Entries) == 0 {
		return d, err
	}
	first := d.Entries[0]
	d.Definition, d.Whole = indented(first.Definition), indented(first.Full)
	if d.Definition == d.Whole {
		d.Whole = ""
	}
	if d.Arguments == "" {
		d.Arguments = example(first.Full.At("inputSchema"))
	}
	return d, nil
}

// try calls the tool.
func (d *toolData) try(v *visit) error {
	arguments := mcp.Raw(d.Arguments)
	if !json.Valid(arguments) || !arguments.IsObject() {
		d.TryProblem = `Arguments: want a JSON object, such as {"id": 7}.`
		return nil
	}
	tried, err := ask(v, admin.TryTool, admin.Trial{Name: d.Name, Arguments: arguments, View: d.As.View})
	if why, not := refused(err); not {
		d.TryProblem = why
		return nil
	}
	d.Tried, d.Result = &tried, indented(tried.Result)
	return err
}

// mostExample bounds the members of example arguments.
const mostExample = 50

// example makes arguments with the members that a schema requires.
func example(schema mcp.Raw) string {
	out, n := mcp.Raw("{}"), 0
	schema.At("required").Elements(func(name mcp.Raw) bool {
		value := mcp.Raw(`""`)
		property, _ := schema.At("properties").Member(name.Text())
		switch preset, has := property.Member("default"); {
		case has:
			value = preset
		default:
			if zero, ok := zeros[property.At("type").Text()]; ok {
				value = mcp.Raw(zero)
			}
		}
		out = out.With(name.Text(), value)
		n++
		return n < mostExample
	})
	return escaped(indented(out))
}

// escaped returns JSON with hidden characters escaped; they occur only in its texts.
func escaped(json string) string {
	var b strings.Builder
	for _, c := range json {
		switch {
		case !webpage.Hidden(c) || c == '\n':
			b.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// zeros are example values by the types of JSON Schema.
var zeros = map[string]string{"integer": "0", "number": "0", "boolean": "false", "array": "[]",
	"object": "{}", "null": "null"}
