//go:build interop

package interop

import (
	"context"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// siteURL is where the site is built for. Links to the repository are to files of this checkout.
const siteURL = "https://docs.example/gatehouse/"

// TestDocsSite builds the site of docs/, and follows each link and each anchor that does not lead elsewhere.
func TestDocsSite(t *testing.T) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	source, dir := checkout.Path("docs", "site"), t.TempDir()
	hugo, err := checkout.BuildOther(ctx, source, "tool")
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(ctx, hugo, "--panicOnWarning", "--noBuildLock", "--baseURL", siteURL, "--destination", dir)
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	repository, listed := siteConfig(t, filepath.Join(source, "hugo.yaml"))
	pages := sitePages(t, dir)
	for at, page := range pages {
		name := strings.Trim(strings.TrimPrefix(at, "/gatehouse/"), "/")
		if n := len(slices.DeleteFunc(slices.Clone(listed), func(l string) bool { return l != name })); n != 1 && name != "" {
			t.Errorf("hugo.yaml lists the page %s %d times, want once", name, n)
		}
		base, err := url.Parse(siteURL)
		if err != nil {
			t.Fatal(err)
		}
		base.Path = at
		for _, link := range page.links {
			to, err := base.Parse(link)
			if err != nil {
				t.Errorf("%s: %q: %v", at, link, err)
				continue
			}
			if file, ours := strings.CutPrefix(to.String(), repository+"/blob/main/"); ours {
				file, _, _ = strings.Cut(file, "#")
				if _, err := os.Stat(checkout.Path(filepath.FromSlash(file))); err != nil {
					t.Errorf("%s: %q leads to a file that is not there", at, link)
				}
				continue
			}
			if to.Host != base.Host {
				continue
			}
			target, found := pages[to.Path]
			if _, err := os.Stat(filepath.Join(dir, strings.TrimPrefix(to.Path, "/gatehouse"))); !found && err != nil {
				t.Errorf("%s: %q leads to no page", at, link)
			}
			if to.Fragment != "" && !slices.Contains(target.anchors, to.Fragment) {
				t.Errorf("%s: %q leads to no anchor of its page", at, link)
			}
		}
	}
	if len(pages) < 30 {
		t.Errorf("the site has %d pages", len(pages))
	}
}

// siteConfig returns the address of the repository, and the pages that the navigation lists.
func siteConfig(t *testing.T, file string) (repository string, listed []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Params struct {
			Repository string `yaml:"repository"`
			Sections   []struct {
				Pages []string `yaml:"pages"`
			} `yaml:"sections"`
		} `yaml:"params"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for _, s := range config.Params.Sections {
		listed = append(listed, s.Pages...)
	}
	return config.Params.Repository, listed
}

// sitePage is a page of the site: where its links lead, as they are written, and the anchors that it has.
type sitePage struct{ links, anchors []string }

// sitePages reads the pages in a directory, by their paths below siteURL.
func sitePages(t *testing.T, dir string) map[string]sitePage {
	t.Helper()
	pages := map[string]sitePage{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != "index.html" {
			return err
		}
		text, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		defer text.Close()
		root, err := html.Parse(text)
		if err != nil {
			return err
		}
		var page sitePage
		for node := range root.Descendants() {
			for _, a := range node.Attr {
				switch a.Key {
				case "id":
					page.anchors = append(page.anchors, a.Val)
				case "href", "src":
					page.links = append(page.links, a.Val)
				}
			}
		}
		pages[path.Join("/gatehouse", path.Dir(name))+"/"] = page
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
