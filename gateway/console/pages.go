package console

// New makes the console with all of its pages.
func New(deps Deps) (*Console, error) { return newConsole(deps, pages, actions) }

// pages are all pages, in the order of the menu.
var pages = []page{
	nowPage,
	serversPage, serverPage,
	catalogPage, toolPage,
	callsPage, callPage,
	policyPage, replayPage,
	sessionsPage,
	approvalsPage,
	signInsPage,
	configurationPage, editPage,
	firstRunPage,
}

// actions are all forms that change something.
var actions = []action{
	actOnServer, approvePins,
	tryDraft,
	tryTool,
	endSession,
	decideApproval,
	testToken,
	openEditor, checkText, downloadText, saveText,
	makeServers,
}
