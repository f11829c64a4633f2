package mcp

// Members of _meta, in any revision.
const (
	// MetaPrefix begins the names that the specification keeps for itself.
	MetaPrefix = "io.modelcontextprotocol/"
	// MetaProgressToken has no prefix.
	MetaProgressToken = "progressToken"
)

// Methods of requests that clients make, in any revision.
const (
	MethodInitialize            = "initialize"
	MethodDiscover              = "server/discover"
	MethodPing                  = "ping"
	MethodToolsList             = "tools/list"
	MethodToolsCall             = "tools/call"
	MethodResourcesList         = "resources/list"
	MethodResourceTemplatesList = "resources/templates/list"
	MethodResourcesRead         = "resources/read"
	MethodResourcesSubscribe    = "resources/subscribe"
	MethodResourcesUnsubscribe  = "resources/unsubscribe"
	MethodPromptsList           = "prompts/list"
	MethodPromptsGet            = "prompts/get"
	MethodComplete              = "completion/complete"
	MethodSetLevel              = "logging/setLevel"
	MethodListen                = "subscriptions/listen"
	MethodTasksGet              = "tasks/get"
	MethodTasksUpdate           = "tasks/update"
	MethodTasksCancel           = "tasks/cancel"
	MethodTasksResult           = "tasks/result"
	MethodTasksList             = "tasks/list"
	MethodSkillsList            = "skills/list"
	MethodSkillsGet             = "skills/get"
	MethodDirectoryRead         = "resources/directory/read"
)

// KnownMethod reports whether clients of any revision make requests with this method.
func KnownMethod(method string) bool {
	switch method {
	case MethodInitialize, MethodDiscover, MethodPing, MethodToolsList, MethodToolsCall,
		MethodResourcesList, MethodResourceTemplatesList, MethodResourcesRead, MethodResourcesSubscribe,
		MethodResourcesUnsubscribe,
		MethodPromptsList, MethodPromptsGet, MethodComplete, MethodSetLevel, MethodListen,
		MethodTasksGet, MethodTasksUpdate, MethodTasksCancel, MethodTasksResult, MethodTasksList,
		MethodSkillsList, MethodSkillsGet, MethodDirectoryRead:
		return true
	}
	return false
}

// Methods of requests from servers to clients. Inside they are the questions of an Ask.
const (
	MethodElicit        = "elicitation/create"
	MethodCreateMessage = "sampling/createMessage"
	MethodRootsList     = "roots/list"
)

// Notifications.
const (
	NoteInitialized          = "notifications/initialized"
	NoteCancelled            = "notifications/cancelled"
	NoteProgress             = "notifications/progress"
	NoteMessage              = "notifications/message"
	NoteRootsListChanged     = "notifications/roots/list_changed"
	NoteToolsListChanged     = "notifications/tools/list_changed"
	NoteResourcesListChanged = "notifications/resources/list_changed"
	NotePromptsListChanged   = "notifications/prompts/list_changed"
	NoteResourceUpdated      = "notifications/resources/updated"
	NoteAcknowledged         = "notifications/subscriptions/acknowledged"
	NoteElicitationComplete  = "notifications/elicitation/complete"
	NoteTask                 = "notifications/tasks"
	NoteSkillsListChanged    = "notifications/skills/list_changed"
)

// ListMember is the member with the items in a list method's result, "" for other methods.
func ListMember(method string) string {
	switch method {
	case MethodToolsList:
		return "tools"
	case MethodResourcesList:
		return "resources"
	case MethodResourceTemplatesList:
		return "resourceTemplates"
	case MethodPromptsList:
		return "prompts"
	case MethodSkillsList:
		return "skills"
	}
	return ""
}

// ItemKey is the member with the routing key in the items of a list method, "" for other
// methods.
func ItemKey(listMethod string) string {
	switch listMethod {
	case MethodToolsList, MethodPromptsList, MethodSkillsList:
		return "name"
	case MethodResourcesList:
		return "uri"
	case MethodResourceTemplatesList:
		return "uriTemplate"
	}
	return ""
}

// NameMember is the member of params with the routing key of a method, "" for methods without
// one. completion/complete has its key one level down, in ref; skills/get has it in uri or
// name (see SkillKey).
func NameMember(method string) string {
	switch method {
	case MethodToolsCall, MethodPromptsGet:
		return "name"
	case MethodResourcesRead, MethodResourcesSubscribe, MethodResourcesUnsubscribe, MethodDirectoryRead:
		return "uri"
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel, MethodTasksResult:
		return "taskId"
	}
	return ""
}

// ParamsFor returns params with name as the routing key of the method. If they already have
// it, they come back unchanged.
func ParamsFor(method string, params Raw, name string) Raw {
	if member := NameMember(method); member != "" {
		return params.withString(member, name)
	}
	if method != MethodComplete {
		return params
	}
	ref, ok := params.Member("ref")
	if !ok {
		return params
	}
	member := "name"
	if kind, _ := ref.Member("type"); kind.Text() == "ref/resource" {
		member = "uri"
	}
	changed := ref.withString(member, name)
	if len(changed) == len(ref) && &changed[0] == &ref[0] {
		return params
	}
	return params.With("ref", changed)
}

// CanAsk says whether a method may be answered with an Ask (2026-07-28
// basic/patterns/mrtr#supported-requests). It includes tasks/result, which only stateful
// clients have (2025-11-25 basic/utilities/tasks).
func CanAsk(method string) bool {
	return method == MethodToolsCall || method == MethodPromptsGet || method == MethodResourcesRead ||
		method == MethodTasksResult
}

// CanAskInSession says whether a method of a client with a session may be answered with an
// Ask. Such a client is asked on the stream of the call, for which the protocol has no
// limits: skills/get may ask, too, before it returns the text of a skill.
func CanAskInSession(method string) bool { return CanAsk(method) || method == MethodSkillsGet }
