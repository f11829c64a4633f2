package mcp

import "github.com/gatehouse-mcp/gatehouse/internal/failure"

// MaxFiltered bounds the resources, and the tasks, of a Filter.
const MaxFiltered = 1000

// Filter says what a subscriptions/listen call subscribes to or, in its acknowledgement, what
// the server has accepted (2026-07-28 basic/patterns/subscriptions).
type Filter struct {
	Lists Lists    // lists with changes to report
	URIs  []string // resources with updates to report, without duplicates
	Tasks []string // ids of tasks with states to report, without duplicates
}

// Lists is a set of lists, a bit for each notification of a change.
type Lists uint8

// The lists.
const (
	ToolLists     Lists = 1 << iota
	PromptLists         //
	ResourceLists       // of resources and of their templates
	SkillLists          // of SEP-2076, which is older than filters: the name of its member follows theirs

	AllLists = ToolLists | PromptLists | ResourceLists | SkillLists
)

const (
	filterMember = "notifications" // of the params
	urisMember   = "resourceSubscriptions"
	tasksMember  = "taskIds"
)

// listRow describes a list: the member of a filter that subscribes to its changes, the
// notification of a change, and the methods that read it.
type listRow struct {
	list         Lists
	member, note string
	methods      [2]string
}

func listRows() [4]listRow {
	return [...]listRow{
		{ToolLists, "toolsListChanged", NoteToolsListChanged, [2]string{MethodToolsList}},
		{PromptLists, "promptsListChanged", NotePromptsListChanged, [2]string{MethodPromptsList}},
		{ResourceLists, "resourcesListChanged", NoteResourcesListChanged,
			[2]string{MethodResourcesList, MethodResourceTemplatesList}},
		{SkillLists, "skillsListChanged", NoteSkillsListChanged, [2]string{MethodSkillsList}},
	}
}

// FilterMembers returns the names of all members of a filter.
func FilterMembers() []string {
	names := []string{urisMember, tasksMember}
	for _, row := range listRows() {
		names = append(names, row.member)
	}
	return names
}

// ListsChanged returns the lists that a notification is about, none if it is not about lists.
func ListsChanged(note string) Lists {
	for _, row := range listRows() {
		if row.note == note {
			return row.list
		}
	}
	return 0
}

// ListsRead returns the lists that a method reads, none for other methods.
func ListsRead(method string) Lists {
	for _, row := range listRows() {
		if method != "" && (row.methods[0] == method || row.methods[1] == method) {
			return row.list
		}
	}
	return 0
}

// Methods returns the methods that read the lists.
func (l Lists) Methods() (methods []string) {
	for _, row := range listRows() {
		for _, method := range row.methods {
			if l&row.list != 0 && method != "" {
				methods = append(methods, method)
			}
		}
	}
	return methods
}

// Events returns the notifications that the lists have changed.
func (l Lists) Events() (events []Event) {
	for _, row := range listRows() {
		if l&row.list != 0 {
			events = append(events, Event{Method: row.note, Params: Raw(`{}`)})
		}
	}
	return events
}

// FilterOf reads the filter in the params of a subscriptions/listen call or of its
// acknowledgement; see ReadFilter.
func FilterOf(params Raw) (Filter, error) {
	filter, _ := params.Member(filterMember)
	return ReadFilter(filter)
}

// ReadFilter reads a filter. It ignores unknown members. The error, an *Error with
// CodeInvalidParams, describes the first mistake; the Filter has the rest.
func ReadFilter(filter Raw) (f Filter, err error) {
	if !filter.IsObject() {
		return f, Errorf(failure.InvalidParams, "Invalid params: notifications is no object")
	}
	filter.Members(func(name []byte, value Raw) bool {
		var wrong error
		if value.IsNull() { // as if it were not there
			return true
		}
		switch string(name) {
		case urisMember:
			f.URIs, wrong = readNames(urisMember, value)
		case tasksMember:
			f.Tasks, wrong = readNames(tasksMember, value)
		default:
			for _, row := range listRows() {
				if row.member == string(name) && value.IsTrue() {
					f.Lists |= row.list
				}
			}
		}
		if err == nil {
			err = wrong
		}
		return true
	})
	return f, err
}

func readNames(member string, value Raw) (names []string, err error) {
	if !value.IsArray() {
		return nil, Errorf(failure.InvalidParams, "Invalid params: %s is no array", member)
	}
	seen := make(map[string]bool)
	value.Elements(func(one Raw) bool {
		name, ok := one.StringValue()
		switch {
		case !ok:
			err = Errorf(failure.InvalidParams, "Invalid params: what is in %s is no string", member)
		case seen[name]:
		case len(names) == MaxFiltered:
			err = Errorf(failure.InvalidParams, "Invalid params: more than %d %s", MaxFiltered, member)
			return false
		default:
			seen[name] = true
			names = append(names, name)
		}
		return true
	})
	return names, err
}

// In returns params with the filter in place of any other; params may be nil.
func (f Filter) In(params Raw) Raw {
	filter := Raw(`{}`)
	for _, row := range listRows() {
		if f.Lists&row.list != 0 {
			filter = filter.With(row.member, Raw(`true`))
		}
	}
	if len(f.URIs) > 0 {
		filter = filter.With(urisMember, Strings(f.URIs))
	}
	if len(f.Tasks) > 0 {
		filter = filter.With(tasksMember, Strings(f.Tasks))
	}
	return params.With(filterMember, filter)
}

// Lets reports whether the filter includes notifications of a method, whatever resource or
// task they are about.
func (f Filter) Lets(note string) bool {
	switch note {
	case NoteResourceUpdated:
		return len(f.URIs) > 0
	case NoteTask:
		return len(f.Tasks) > 0
	}
	return f.Lists&ListsChanged(note) != 0
}

// Missed returns the notifications for a client that may have missed some: it reports a
// change of each list and resource of the filter. Clients have to ask for tasks.
func (f Filter) Missed() []Event {
	events := f.Lists.Events()
	for _, uri := range f.URIs {
		events = append(events, ResourceUpdated(uri))
	}
	return events
}

// ResourceUpdated is the notification that a resource has changed.
func ResourceUpdated(uri string) Event {
	return Event{Method: NoteResourceUpdated, Params: Object("uri", String(uri))}
}
