package setup

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
)

// add makes a server of an entry.
func (d *Draft) add(e entry) {
	if len(d.Servers) >= mostServers {
		d.note("", "there are more than %d servers: %s was left out", mostServers, shown(e.name))
		return
	}
	e.command = slices.DeleteFunc(e.command, func(arg string) bool { return strings.ContainsRune(arg, 0) })
	e.unwrap()
	e.unwrapRemote()
	e.url = strings.TrimSpace(e.url)
	switch {
	case (e.url == "") == (len(e.command) == 0 || e.command[0] == ""):
		d.note("", "%s: has neither a url nor a command, or both, and was left out", shown(e.name))
		return
	case e.url != "" && !refers(e.url) && !isURL(e.url):
		d.note("", "%s: its url is not an http or https URL, and it was left out", shown(e.name))
		return
	case isGateway(e):
		d.note("", "%s: is this gateway itself, and was left out", shown(e.name))
		return
	}
	known := slices.ContainsFunc(d.entries[:d.known], e.same)
	d.entries = append(d.entries, e)
	if known {
		return
	}
	name := serverName(e.name)
	switch {
	case e.name == "" && e.url != "":
		name = nameOfURL(e.url)
	case e.name == "":
		name = nameOfCommand(e.command)
	}
	s := Server{Name: d.freeName(name), Off: e.off}
	if e.name != "" && s.Name != e.name {
		d.note(s.Name, "was called %s", shown(e.name))
	}
	for _, text := range e.notes {
		d.note(s.Name, "%s", text)
	}
	c := converter{d: d, server: &s}
	if e.url != "" {
		s.URL = c.url(e.url)
		for _, h := range e.headers {
			if strings.ContainsAny(h.Name, " \t\r\n:") || strings.ContainsAny(h.Value, "\r\n") {
				d.note(s.Name, "the header %s cannot be sent, and was left out", shown(h.Name))
				continue
			}
			s.Headers = append(s.Headers, Pair{h.Name, c.header(h)})
		}
		s.Headers = unique(s.Headers, strings.EqualFold)
		s.OAuth = e.oauth && s.canSignIn()
		d.plainText(s)
	} else {
		s.Command = c.command(e.command)
		for _, v := range e.env {
			if strings.ContainsAny(v.Name, "=\x00") || strings.ContainsRune(v.Value, 0) {
				d.note(s.Name, "the variable %s cannot be set, and was left out", shown(v.Name))
				continue
			}
			s.Env = append(s.Env, Pair{v.Name, c.variable(v)})
		}
		s.Env = unique(s.Env, func(a, b string) bool { return a == b })
		s.Dir = c.expand(e.dir, false)
	}
	if s.Off && !e.off {
		d.note(s.Name, "is not enabled: it needs what only the client knows; put it in, and take enabled: false away")
	}
	d.Servers = append(d.Servers, s)
}

// same reports whether two entries, by whatever names, are of one server.
func (e entry) same(other entry) bool {
	return e.url == other.url && e.dir == other.dir && slices.Equal(e.command, other.command) &&
		slices.Equal(e.env, other.env) && slices.Equal(e.headers, other.headers)
}

// unique drops pairs with a name that comes again.
func unique(all []Pair, same func(a, b string) bool) (kept []Pair) {
	for _, p := range all {
		if !slices.ContainsFunc(kept, func(known Pair) bool { return same(known.Name, p.Name) }) {
			kept = append(kept, p)
		}
	}
	return kept
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		!strings.ContainsAny(text, " \t\r\n")
}

// plainText notes the risk of an http URL to another machine.
func (d *Draft) plainText(s Server) {
	u, err := url.Parse(s.URL)
	if err == nil && u.Scheme == "http" && !loopback.Host(u.Hostname()) {
		d.note(s.Name, "its url is http and not on this machine, which the gateway refuses: use https, or write allow_plaintext: true if the network is yours")
	}
}

// isGateway reports whether an entry leads to a gateway, as gatehouse's own documents write it.
func isGateway(e entry) bool {
	if len(e.command) > 0 {
		return strings.TrimSuffix(path.Base(strings.ReplaceAll(e.command[0], `\`, "/")), ".exe") == "gatehouse"
	}
	u, err := url.Parse(e.url)
	return err == nil && strings.EqualFold(e.name, "gatehouse") && loopback.Host(u.Hostname())
}

// unwrap removes the shell of Windows around a command.
func (e *entry) unwrap() {
	if len(e.command) > 2 && strings.TrimSuffix(strings.ToLower(path.Base(e.command[0])), ".exe") == "cmd" &&
		strings.EqualFold(e.command[1], "/c") {
		e.command = e.command[2:]
	}
}

// unwrapRemote removes mcp-remote, with which clients that know only programs reach a URL.
func (e *entry) unwrapRemote() {
	at := slices.IndexFunc(e.command,
		func(arg string) bool { return arg == "mcp-remote" || strings.HasPrefix(arg, "mcp-remote@") })
	if at < 0 {
		return
	}
	to, headers := "", []Pair(nil)
	var rest []string
	for i := at + 1; i < len(e.command); i++ {
		arg := e.command[i]
		switch {
		case to == "" && isURL(arg):
			to = arg
		case arg == "--header" && i+1 < len(e.command):
			i++
			name, value, _ := strings.Cut(e.command[i], ":")
			for _, v := range e.env {
				value = strings.ReplaceAll(value, "${"+v.Name+"}", v.Value)
			}
			headers = append(headers, Pair{strings.TrimSpace(name), strings.TrimSpace(value)})
		case arg == "--transport" && i+1 < len(e.command):
			i++
		default:
			rest = append(rest, arg)
		}
	}
	if to == "" {
		return
	}
	if slices.ContainsFunc(rest, func(arg string) bool { return strings.HasPrefix(arg, "--static-oauth") }) {
		e.notes = append(e.notes,
			"mcp-remote stays, since it is registered by hand: auth of type user_oauth takes that as client_id, too")
		return
	}
	e.oauth = len(headers) == 0
	e.url, e.command, e.env, e.headers = to, nil, nil, append(e.headers, headers...)
	e.notes = append(e.notes, "mcp-remote is not needed: the gateway reaches the url by itself")
	if len(rest) > 0 {
		e.notes = append(e.notes, "not taken over of mcp-remote: "+shown(strings.Join(rest, " ")))
	}
}
