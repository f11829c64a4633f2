package demo

import (
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// version is the version of the demo servers.
const version = "1.0.0"

// text returns the result of reading a Markdown resource.
func text(uri, body string) *sdk.ReadResourceResult {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
		{URI: uri, MIMEType: "text/markdown", Text: body},
	}}
}

// completion offers the values that begin with the typed text.
func completion(values []string, typed string) *sdk.CompleteResult {
	fitting := []string{}
	for _, value := range values {
		if strings.HasPrefix(value, typed) {
			fitting = append(fitting, value)
		}
	}
	return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: fitting, Total: len(fitting)}}
}

// contextArgument returns the value that the user already chose for another argument.
func contextArgument(req *sdk.CompleteRequest, name string) string {
	if req.Params.Context == nil {
		return ""
	}
	return req.Params.Context.Arguments[name]
}
