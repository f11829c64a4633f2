package setup

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// mostName bounds the name of a server, which stands in front of the names of its tools.
const mostName = 24

// nameParts matches the parts of the name of a server or a variable.
var nameParts = regexp.MustCompile(`[A-Za-z0-9]+`)

// serverName makes a name that a configuration may have.
func serverName(text string) string {
	name := strings.Join(nameParts.FindAllString(text, 32), "-")
	if name == "" {
		return "server"
	}
	if name[0] >= '0' && name[0] <= '9' {
		name = "s-" + name
	}
	if len(name) > mostName {
		name = strings.TrimRight(name[:mostName], "-")
	}
	if strings.EqualFold(name, "gatehouse") {
		return "server" // gatehouse is the prefix of questions of the gateway itself
	}
	return name
}

// freeName returns the name, or one like it that no server has yet.
func (d *Draft) freeName(name string) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(d.Servers, func(s Server) bool { return strings.EqualFold(s.Name, name) })
	}
	free := name
	for i := 2; taken(free); i++ {
		free = fmt.Sprintf("%s-%d", strings.TrimRight(name[:min(len(name), mostName-4)], "-"), i)
	}
	return free
}

// nameOfURL makes a name of the host: mcp.linear.app is linear.
func nameOfURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "server"
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); ip != nil || host == "localhost" {
		return serverName("local " + u.Port())
	}
	labels := strings.Split(host, ".")
	for len(labels) > 2 && slices.Contains([]string{"mcp", "api", "www", "server", "app"}, labels[0]) {
		labels = labels[1:]
	}
	return serverName(labels[0])
}

// runners are programs that run the package that their first argument names.
var runners = []string{"npx", "bunx", "uvx", "pipx", "pnpm", "pnpx", "yarn", "npm", "uv", "bun", "deno", "node",
	"python", "python3", "docker", "podman", "dlx", "exec", "run", "x", "cmd", "sh", "bash", "env"}

// nameOfCommand makes a name of the program: npx -y @a/server-files@1 is files.
func nameOfCommand(command []string) string {
	program := ""
	for _, arg := range command {
		base := strings.TrimSuffix(path.Base(strings.ReplaceAll(arg, `\`, "/")), ".exe")
		if arg == "" || strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "/c") || slices.Contains(runners, base) ||
			strings.Contains(arg, "=") {
			continue
		}
		program = base
		break
	}
	program, _, _ = strings.Cut(program, "@")
	program, _, _ = strings.Cut(program, ":")
	for _, end := range []string{".js", ".mjs", ".ts", ".py"} {
		program = strings.TrimSuffix(program, end)
	}
	short := strings.Trim(strings.NewReplacer("mcp-server", "", "server-", "", "-server", "", "-mcp", "", "mcp-",
		"").Replace(program), "-")
	if short == "" {
		short = program
	}
	return serverName(short)
}

// variableName makes the name of a variable.
func variableName(text string) string {
	name := strings.ToUpper(strings.Join(nameParts.FindAllString(text, 32), "_"))
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "V_" + name
	}
	return name[:min(len(name), 64)]
}
