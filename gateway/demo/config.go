package demo

import (
	"bytes"
	"embed"
	"os"
	"path/filepath"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Config returns the configuration, as YAML, of a gateway in front of the three servers and
// a directory of skills.
func (d *Demo) Config() []byte { return bytes.Clone(d.config) }

func (d *Demo) newConfig() ([]byte, error) {
	skills, err := d.writeSkills()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = fill(&text, "gatehouse.yaml.txt", struct {
		Listen, Notes, Ops, Skills, Admin string
		Handbook                          []string
		SignIn                            *signIn
		Progressive, Offline              bool
	}{
		d.opts.Listen, d.urls["notes"], d.urls["ops"], skills, d.opts.Admin,
		append([]string{d.opts.Executable}, d.opts.Args...), d.signIn, d.opts.Progressive, d.opts.Offline,
	})
	return text.Bytes(), err
}

// WriteConfig writes the configuration to a file, which Close removes.
func (d *Demo) WriteConfig() (file string, err error) {
	d.file, err = d.write("gatehouse.yaml", d.config)
	return d.file, err
}

//go:embed skills
var skillFiles embed.FS

// writeSkills writes the skills to a directory, which Close removes.
func (d *Demo) writeSkills() (dir string, err error) {
	if err := d.makeDir(); err != nil {
		return "", err
	}
	return filepath.Join(d.dir, "skills"), os.CopyFS(d.dir, skillFiles)
}

func (d *Demo) makeDir() (err error) {
	if d.dir == "" {
		d.dir, err = os.MkdirTemp("", "gatehouse-demo-")
	}
	return err
}

// write writes a file that only this user can read.
func (d *Demo) write(name string, content []byte) (file string, err error) {
	if err := d.makeDir(); err != nil {
		return "", err
	}
	file = filepath.Join(d.dir, name)
	return file, os.WriteFile(file, content, 0o600)
}

// quote makes a double-quoted scalar of YAML, as a JSON string is one. It escapes "${" in a path,
// which the loader would expand.
func quote(s string) string {
	return string(mcp.String(strings.ReplaceAll(s, "${", "$${")))
}

// quoteFile makes a reference to the content of a file.
func quoteFile(path string) string { return string(mcp.String("${file:" + path + "}")) }
