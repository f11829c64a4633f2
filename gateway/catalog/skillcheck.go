package catalog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog/fit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
)

// A client may check the whole list of skills and refuse all of it because of one entry. So
// the requirements of both documents are checked here for every entry, whatever its origin,
// and each error says why one entry is withheld.

// instructions are the requirements of SEP-2076 §5 on a GetSkillResult, except for its
// dependencies.
var instructions = fit.Shape{
	fit.Text("instructions").Needed(), fit.Text("description"), fit.Object("_meta"),
	fit.Objects("files", fit.Shape{
		fit.Is("uri", func(uri mcp.Raw) bool { return sane(uri.Text()) }, "is no URI").Needed(), fit.Text("name").Needed(),
		fit.Text("title"), fit.Text("description"), fit.Text("mimeType"), fit.Boolean("required"), fit.Object("_meta"),
	}),
}

// frontmatter are the requirements of the Agent Skills specification on its members.
var frontmatter = fit.Shape{
	within("description", skillmd.MaxDescription).Needed(), within("compatibility", skillmd.MaxCompatibility),
	fit.Text("license"), fit.Text("allowed-tools"), fit.Is("metadata", mcp.Raw.IsObject, "is no mapping"),
	fit.Is("__proto__", func(mcp.Raw) bool { return false }, "is not a name that every client can keep"),
}

// within makes a member that is a text of at most this many characters.
func within(name string, most int) fit.Member {
	return fit.Is(name, func(value mcp.Raw) bool {
		t, ok := value.StringValue()
		return ok && strings.TrimSpace(t) != "" && utf8.RuneCountInString(t) <= most
	}, fmt.Sprintf("is no text of 1 to %d characters", most))
}

// checkFrontmatter checks frontmatter without changing it: clients compare it with that of the file.
// directory is the name of the skill's directory.
func checkFrontmatter(raw mcp.Raw, directory string) error {
	if raw.IsNull() {
		return errors.New("it has no frontmatter")
	}
	fitted, err := frontmatter.Fit(raw)
	if err != nil {
		return fmt.Errorf("frontmatter %w", err)
	}
	switch {
	case !same(fitted, raw):
		return errors.New("frontmatter: a member that is optional is null: leave it out of the file")
	case raw.At("name").Text() != directory:
		return errors.New("the last directory of its URI is not the name in its frontmatter")
	case !skillmd.IsName(directory):
		return fmt.Errorf("frontmatter: the name is not 1 to %d lower-case letters, digits and single '-' between them",
			skillmd.MaxName)
	}
	metadata, _ := raw.Member("metadata")
	if wire.CheckObject(metadata) != nil {
		return errors.New("frontmatter: metadata can be read in two ways")
	}
	metadata.Members(func(name []byte, value mcp.Raw) bool {
		if _, ok := value.StringValue(); !ok {
			err = fmt.Errorf("frontmatter: metadata: %s is no text: put it between quotation marks", clipName(string(name)))
		}
		return err == nil
	})
	return err
}

// checkFiles checks the files of a record (skills extension, Resources). The record must have all
// files, or say that it does not. root is the URI of the skill's directory.
func checkFiles(files mcp.Raw, root string) (complete bool, err error) {
	switch {
	case files.Text() == "dynamic":
		return false, nil
	case !files.IsArray():
		return false, errors.New(`its resources are neither "dynamic" nor a list of its files`)
	}
	seen := make(map[string]bool)
	total := uint64(0)
	files.Elements(func(f mcp.Raw) bool {
		if wire.CheckObject(f) != nil {
			err = errors.New("its resources have a file that is no object that can be read in one way")
			return false
		}
		member, _ := f.Member("uri")
		digest, _ := f.Member("digest")
		number, _ := f.Member("size")
		uri := member.Text()
		key, wrong := uriKey(uri)
		size, noSize := strconv.ParseUint(string(number), 10, 53)
		total += size
		switch {
		case wrong != nil:
			err = wrong
		case !strings.HasPrefix(uri, root+"/"):
			err = errors.New("it is not in the skill's directory")
		case seen[key]:
			err = errors.New("it is listed twice")
		case !skillmd.IsDigest(digest.Text()):
			err = errors.New("its digest is not sha256: and 64 hex digits")
		case noSize != nil:
			err = errors.New("its size is not a number of bytes")
		case len(seen) == skillmd.MaxFiles || total > skillmd.MaxBytes:
			err = fmt.Errorf("the skill has more than %d files or %d bytes", skillmd.MaxFiles, skillmd.MaxBytes)
		}
		seen[key] = true
		if err != nil {
			err = fmt.Errorf("its file %q: %w", clipName(uri), err)
		}
		return err == nil
	})
	if err != nil {
		return true, err
	}
	if key, _ := uriKey(root + "/" + mcp.SkillFile); !seen[key] {
		return true, fmt.Errorf("its resources lack its %s", mcp.SkillFile)
	}
	return true, nil
}

// clipName shortens an upstream's text before it is repeated.
func clipName(name string) string { return name[:min(len(name), 80)] }
