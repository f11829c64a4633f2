package catalog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
)

// A client may check the whole list of skills and refuse all of it because of one entry. So
// the requirements of both documents are checked here for every entry, whatever its origin,
// and each error says why one entry is withheld.

// field describes what a member of an object must be if it is present.
type field struct {
	name string
	is   func(mcp.Raw) bool
	kind string // in words
}

// checkFields checks the members of an object, which must be unambiguous. The members in
// required must be present.
func checkFields(object mcp.Raw, required string, fields ...field) error {
	if err := wire.CheckObject(object); err != nil {
		return ambiguous(err)
	}
	if _, ok := object.Member(required); required != "" && !ok {
		return fmt.Errorf("%s is missing", required)
	}
	for _, f := range fields {
		if value, ok := object.Member(f.name); ok && !f.is(value) {
			return fmt.Errorf("%s is %s", f.name, f.kind)
		}
	}
	return nil
}

func text(name string) field {
	return field{name, func(value mcp.Raw) bool { _, ok := value.StringValue(); return ok }, "no text"}
}

func boolean(name string) field {
	return field{name, func(value mcp.Raw) bool { return value.IsTrue() || string(value) == "false" }, "neither true nor false"}
}

func object(name string) field { return field{name, mcp.Raw.IsObject, "no object"} }

// list describes an array whose elements are all valid.
func list(name, of string, is func(mcp.Raw) bool) field {
	return field{name, func(value mcp.Raw) bool {
		ok := value.IsArray()
		value.Elements(func(element mcp.Raw) bool {
			ok = is(element)
			return ok
		})
		return ok
	}, "no list of " + of}
}

// checkSkill checks the requirements of SEP-2076 §5 on a Skill, except for its
// dependencies: wrong ones are left out.
func checkSkill(record mcp.Raw) error {
	return checkFields(record, "name", text("name"), text("title"), text("description"), text("version"), object("_meta"),
		list("tags", "texts", func(tag mcp.Raw) bool { _, ok := tag.StringValue(); return ok }),
		list("arguments", "arguments, each with a name", func(argument mcp.Raw) bool {
			return checkFields(argument, "name", text("name"), text("title"), text("description"), boolean("required")) == nil
		}),
		list("icons", "icons, each with a src", func(icon mcp.Raw) bool {
			return checkFields(icon, "src", text("src"), text("mimeType"),
				field{"theme", func(theme mcp.Raw) bool { return theme.Text() == "light" || theme.Text() == "dark" }, "unknown"},
				list("sizes", "texts", func(size mcp.Raw) bool { _, ok := size.StringValue(); return ok })) == nil
		}))
}

// checkInstructions checks the requirements of SEP-2076 §5 on a GetSkillResult, except for
// its dependencies.
func checkInstructions(result mcp.Raw) error {
	return checkFields(result, "instructions", text("instructions"), text("description"), object("_meta"),
		list("files", "files, each with a name and a URI", func(file mcp.Raw) bool {
			uri, _ := file.Member("uri")
			return sane(uri.Text()) && checkFields(file, "name", text("name"), text("title"), text("description"), text("mimeType"), boolean("required"), object("_meta")) == nil
		}))
}

// checkFrontmatter checks the requirements of the Agent Skills specification on
// frontmatter. directory is the name of the skill's directory.
func checkFrontmatter(frontmatter mcp.Raw, directory string) error {
	if frontmatter == nil {
		return errors.New("it has no frontmatter")
	}
	within := func(name string, most int) field {
		return field{name, func(value mcp.Raw) bool {
			t, ok := value.StringValue()
			return ok && strings.TrimSpace(t) != "" && utf8.RuneCountInString(t) <= most
		}, fmt.Sprintf("no text of 1 to %d characters", most)}
	}
	err := checkFields(frontmatter, "description", within("description", skillmd.MaxDescription), within("compatibility", skillmd.MaxCompatibility), text("license"), text("allowed-tools"),
		field{"metadata", mcp.Raw.IsObject, "no mapping"},
		field{"__proto__", func(mcp.Raw) bool { return false }, "not a name that every client can keep"})
	if err != nil {
		return fmt.Errorf("frontmatter: %w", err)
	}
	name, _ := frontmatter.Member("name")
	switch {
	case name.Text() != directory:
		return errors.New("the last directory of its URI is not the name in its frontmatter")
	case !skillmd.IsName(directory):
		return fmt.Errorf("frontmatter: the name is not 1 to %d lower-case letters, digits and single '-' between them", skillmd.MaxName)
	}
	metadata, _ := frontmatter.Member("metadata")
	if err := wire.CheckObject(metadata); err != nil {
		return ambiguous(err)
	}
	metadata.Members(func(name []byte, value mcp.Raw) bool {
		if _, ok := value.StringValue(); !ok {
			err = fmt.Errorf("frontmatter: metadata: %s is no text: put it between quotation marks", clipName(string(name)))
		}
		return err == nil
	})
	return err
}

// checkFiles checks the files of a record (skills extension, Resources). The record must
// have all of them, or say that it does not. root is the URI of the skill's directory.
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
		if err = checkFields(f, "uri"); err != nil {
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

// clipName bounds how much of an upstream's text is repeated.
func clipName(name string) string { return name[:min(len(name), 80)] }

// ambiguous turns an error of wire.CheckObject, which speaks of params, into one about an
// item.
func ambiguous(err error) error {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return errors.New("its definition can be read in two ways: " + strings.TrimPrefix(e.Message, "Invalid params: "))
	}
	return err
}
