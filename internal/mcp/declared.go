package mcp

import "strings"

// UIExtension is MCP Apps.
const UIExtension = "io.modelcontextprotocol/ui"

// maxExtensions bounds, in bytes, how much of a client's declared extensions counts.
const maxExtensions = 4 << 10

// Declared is the part of a client's ClientCapabilities that can change what a server shows it:
// what it can be asked for, and its extensions.
type Declared struct {
	Roots, RootsChange      bool // RootsChange is roots.listChanged
	Sampling, SamplingTools bool
	Form, URL               bool // the modes of elicitation
	Extensions              Raw  // nil for none, or for too much
}

// ReadDeclared reads a ClientCapabilities object.
func ReadDeclared(caps Raw) (d Declared) {
	_, d.Roots = caps.Member("roots")
	d.RootsChange = caps.At("roots", "listChanged").IsTrue()
	_, d.Sampling = caps.Member("sampling")
	_, d.SamplingTools = caps.At("sampling").Member("tools")
	if elicitation, ok := caps.Member("elicitation"); ok {
		_, d.Form = elicitation.Member("form")
		_, d.URL = elicitation.Member("url")
		d.Form = d.Form || !d.URL // {} means form, 2025-11-25 client/elicitation
	}
	if extensions := caps.At("extensions"); extensions.IsObject() && len(extensions) <= maxExtensions {
		d.Extensions = extensions
	}
	return d
}

// Object returns a ClientCapabilities object, the same for all that declare the same.
func (d Declared) Object() Raw {
	var members []string
	switch {
	case d.RootsChange:
		members = append(members, `"roots":{"listChanged":true}`)
	case d.Roots:
		members = append(members, `"roots":{}`)
	}
	switch {
	case d.SamplingTools:
		members = append(members, `"sampling":{"tools":{}}`)
	case d.Sampling:
		members = append(members, `"sampling":{}`)
	}
	switch {
	case d.Form && d.URL:
		members = append(members, `"elicitation":{"form":{},"url":{}}`)
	case d.Form:
		members = append(members, `"elicitation":{"form":{}}`)
	case d.URL:
		members = append(members, `"elicitation":{"url":{}}`)
	}
	if len(d.Extensions) > len("{}") {
		members = append(members, `"extensions":`+string(d.Extensions))
	}
	return Raw("{" + strings.Join(members, ",") + "}")
}
