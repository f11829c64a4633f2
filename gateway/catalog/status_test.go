package catalog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func TestStatus(t *testing.T) {
	s := newServer("crm").tools("a", "b", "c\nd").has(mcp.MethodPromptsList, `{"name":"p"}`).
		has(mcp.MethodResourcesList, resource("a:b")).has(mcp.MethodResourceTemplatesList, template("a:{b}"), template("{b}"))
	down := newServer("down")
	down.unreachable(true)
	c := start(t, Source{Upstream: s}, plain(down))
	got := c.Status()
	up := got[0]
	if up.Name != "crm" || up.Prefix != "crm__" || up.State != StateUp || up.Since.IsZero() || up.LastError != "" ||
		up.Tools != 2 || up.Prompts != 1 || up.Resources != 1 || up.ResourceTemplates != 1 {
		t.Errorf("got %+v", up)
	}
	want := []Withheld{{List: "tools", Name: "c\nd", Reason: errNoName.Error()},
		{List: "resource templates", Name: "{b}", Reason: errOpenScheme.Error()}}
	if len(up.Withheld) != 2 || up.Withheld[0] != want[0] || up.Withheld[1] != want[1] {
		t.Errorf("withheld %+v", up.Withheld)
	}
	if d := got[1]; d.Name != "down" || d.Prefix != "" || d.State != StateDown ||
		!strings.Contains(d.LastError, "cannot be reached") {
		t.Errorf("got %+v", d)
	}
}

func TestWithheldIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		key, err := seal.NewRandom("cursor")
		if err != nil {
			t.Fatal(err)
		}
		s := newServer("crm").tools("a\tb", "c")
		c, err := New(Config{}, []Source{{Upstream: s}},
			Deps{Log: slog.New(slog.NewTextHandler(&log, nil)), Seal: key, Tasks: key})
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, c)
		c.WaitFirst(t.Context())
		for range 5 {
			s.says(mcp.NoteToolsListChanged, `{}`)
			after(time.Second)
		}
		names := []string{"a\tb"}
		for range 50 {
			names = append(names, strings.Repeat("\t", len(names))+"x")
		}
		s.tools(names...).says(mcp.NoteToolsListChanged, `{}`)
		after(time.Minute) // those before have shown nothing new
		stop()
		if n := strings.Count(log.String(), `name="a\tb"`); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
		if n := strings.Count(log.String(), `msg="item withheld"`); n != 21 ||
			!strings.Contains(log.String(), `msg="more items withheld" error_code=GH-ITEM-WITHHELD upstream=crm count=30`) {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}
