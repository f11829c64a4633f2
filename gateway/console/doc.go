// Package console serves operators' pages in a browser: the state of the gateway, and forms to change it.
//
// It owns the pages (a file of Go and a template in pages/ for each), their style (static/), and
// who may open them: a person who has signed in at one of the gateway's issuers and has a role by
// admin.rules, or, if the configuration says so, all who come from the machine itself. It leaves
// everything else to the operations of gateway/admin: pages show their answers, and forms start
// them, with the roles of the visitor. Nothing else is within reach.
//
// Pages are made at the server and work without script. The part of a page within data-live is made
// again while the page is open, and sent as an event stream. There is no inline script or style and
// nothing from other hosts, as the Content-Security-Policy demands.
//
// To add a page: a file NAME.go with a page value, a template pages/NAME.html, and the value in
// pages.go. Texts of servers, clients and callers go through the template function "text", which
// shows invisible characters and cuts long ones.
//
// It starts no goroutine that outlives a request.
package console
