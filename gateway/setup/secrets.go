package setup

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
)

// converter makes the values of one server: secrets become references to the environment, and the
// references of clients become the gateway's.
type converter struct {
	d      *Draft
	server *Server
}

// reference matches the references that clients replace by values. Claude Code and Gemini write ${NAME}
// and ${NAME:-default}, Cursor, VS Code and Windsurf ${env:NAME} and ${input:id}, opencode {env:NAME}.
var reference = regexp.MustCompile(`\$\{([^{}$]*)\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

var clientVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand writes the references of clients as the gateway's. The defaults of a secret are secret, too.
func (c converter) expand(text string, secret bool) string {
	var b strings.Builder
	done := 0
	for _, at := range reference.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(escaped(text[done:at[0]]))
		done = at[1]
		if at[4] >= 0 {
			b.WriteString(c.refer(text[at[4]:at[5]], "", "the environment"))
			continue
		}
		b.WriteString(c.reference(text[at[2]:at[3]], secret))
	}
	return b.String() + escaped(text[done:])
}

// reference returns the replacement for the inside of ${...}.
func (c converter) reference(inside string, secret bool) string {
	kind, name, has := strings.Cut(inside, ":")
	switch {
	case has && kind == "env" && clientVariable.MatchString(name):
		return c.refer(name, "", "the environment")
	case has && kind == "input" && name != "":
		why := "what the client asks for"
		if said := c.d.inputs[name]; said != "" {
			why = shown(said)
		}
		return c.refer(variableName(name), "", why)
	case inside == "userHome":
		return c.refer("HOME", "", "the environment")
	case inside == "/" || inside == "pathSeparator":
		return "/"
	case clientVariable.MatchString(inside) && !strings.HasPrefix(inside, "workspaceFolder"):
		return c.refer(inside, "", "the environment")
	case has && clientVariable.MatchString(kind) && strings.HasPrefix(name, "-"):
		said := name[1:]
		if secret = secret || configtext.SecretName(kind) || configtext.SecretValue(said); said != "" && !secret {
			c.d.note(c.server.Name, "the default of %s is used: write ${env:%s} in its place if the variable is set", kind, kind)
			return escaped(said)
		}
		return c.refer(kind, said, "the environment")
	}
	c.d.note(c.server.Name, "${%s} is something that only the client knows", shown(inside))
	c.server.Off = true
	return "$${" + inside + "}"
}

// escaped escapes a text that would be a reference of the gateway's.
func escaped(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// refer records a needed variable, and returns the reference to it. If another one has the name with
// another value, it gets the name of the server in front.
func (c converter) refer(name, value, why string) string {
	name = name[:min(len(name), 128)]
	free, longer := name, variableName(c.server.Name+" "+name)
	for i := 1; ; i++ {
		at := slices.IndexFunc(c.d.Variables, func(v Variable) bool { return v.Name == free })
		if at < 0 {
			c.d.Variables = append(c.d.Variables, Variable{Name: free, For: c.server.Name + ": " + why, value: value})
		}
		if at < 0 || c.d.Variables[at].value == value {
			if at >= 0 && !strings.HasPrefix(c.d.Variables[at].For, c.server.Name+": ") {
				c.d.Variables[at].For += "; " + c.server.Name + ": " + why
			}
			return "${env:" + free + "}"
		}
		if free = longer; i > 1 {
			free = fmt.Sprintf("%s_%d", longer, i)
		}
	}
}

// hide replaces a whole value by a reference.
func (c converter) hide(name, value, why string) string {
	if strings.TrimSpace(value) == "" {
		return value
	}
	return c.refer(variableName(name), value, why)
}

// refers reports whether a client replaces a part of a value, so that it has no secret itself.
func refers(value string) bool { return reference.MatchString(value) }

// variable makes the value of a variable of a process.
func (c converter) variable(v Pair) string {
	if !refers(v.Value) && (configtext.SecretName(v.Name) || configtext.SecretValue(v.Value)) {
		return c.hide(v.Name, v.Value, "env "+shown(v.Name))
	}
	return c.clean(v.Value, v.Name, "env "+shown(v.Name), configtext.SecretName(v.Name))
}

// header makes the value of a header. The scheme of a credential stays.
func (c converter) header(h Pair) string {
	name, why := c.server.Name+" "+h.Name, "header "+shown(h.Name)
	if strings.EqualFold(h.Name, "Authorization") {
		name = c.server.Name + " token"
	}
	if refers(h.Value) || !configtext.SecretName(h.Name) && !configtext.SecretValue(h.Value) {
		return c.clean(h.Value, name, why, configtext.SecretName(h.Name))
	}
	if scheme, credential, has := strings.Cut(strings.TrimSpace(h.Value), " "); has && len(scheme) <= 10 &&
		strings.EqualFold(h.Name, "Authorization") {
		return escaped(scheme) + " " + c.hide(name, strings.TrimSpace(credential), why)
	}
	return c.hide(name, h.Value, why)
}

// clean expands a value that is no secret by its name. If it has a secret nevertheless, all of it
// becomes a reference.
func (c converter) clean(value, name, why string, secret bool) string {
	if configtext.SecretValue(reference.ReplaceAllString(value, "")) {
		return c.hide(name, value, why)
	}
	return c.expand(value, secret)
}

// command makes the arguments of a program. The values of flags such as --token are secrets.
func (c converter) command(args []string) (made []string) {
	flag := ""
	for _, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		isFlag := strings.HasPrefix(arg, "-")
		switch {
		case isFlag && joined && !refers(value) && (configtext.SecretName(name) || configtext.SecretValue(value)):
			made = append(made, escaped(name)+"="+c.hide(c.argument(name), value, "argument "+shown(name)))
		case !isFlag && configtext.SecretName(flag) && !refers(arg):
			made = append(made, c.hide(c.argument(flag), arg, "argument "+shown(flag)))
		case !isFlag && joined && clientVariable.MatchString(name) && !refers(value) && configtext.SecretName(name): // docker run -e
			made = append(made, name+"="+c.hide(name, value, "argument "+name))
		default:
			secret := configtext.SecretName(flag) || joined && configtext.SecretName(name)
			made = append(made, c.clean(arg, c.argument(flag), "an argument", secret))
		}
		flag = ""
		if isFlag && !joined {
			flag = arg
		}
	}
	return made
}

func (c converter) argument(flag string) string {
	return c.server.Name + " " + cmp.Or(flag, "argument")
}

// url makes a URL without secrets: those in its query become references, and a user with a password
// a header.
func (c converter) url(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || refers(raw) {
		return c.expand(raw, false)
	}
	if password, has := u.User.Password(); has || u.User != nil {
		credential := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		c.server.Headers = append(c.server.Headers, Pair{"Authorization",
			"Basic " + c.hide(c.server.Name+" basic", credential, "header Authorization, user:password in base64")})
		u.User = nil
	}
	bare := *u
	if bare.RawQuery, bare.Fragment = "", ""; configtext.SecretValue(bare.String()) {
		return c.hide(c.server.Name+" url", u.String(), "its url, which has a secret in its path")
	}
	query := strings.Split(u.RawQuery, "&")
	for i, part := range query {
		name, value, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(value)
		if err == nil && plain != "" && (configtext.SecretName(name) || configtext.SecretValue(plain)) {
			// The variable has it as it stands in the URL.
			query[i] = name + "=" + c.hide(c.server.Name+" "+name, value, "the query of its url")
		} else {
			query[i] = escaped(part)
		}
	}
	u.RawQuery = strings.Join(query, "&") // the rest of a URL has no braces
	return strings.TrimSuffix(u.String(), "?")
}
