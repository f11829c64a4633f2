package skilldir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// listenTo has somebody listen to a directory until the test ends, and returns what they
// hear after the acknowledgement.
func listenTo(t *testing.T, d *Dir, filter string) <-chan mcp.Event {
	t.Helper()
	heard := make(chan mcp.Event, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = d.Handle(ctx, &mcp.Call{Method: mcp.MethodListen, Params: mcp.Raw(`{"notifications":` + filter + `}`),
			Notify: func(e mcp.Event) { heard <- e }})
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case ack := <-heard:
		if got, _ := ack.Params.Member("notifications"); ack.Method != mcp.NoteAcknowledged || string(got) != filter {
			t.Fatalf("acknowledged %s, want %s", got, filter)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing is acknowledged")
	}
	return heard
}

// slowDir is a directory at which each look takes so long and is counted.
func slowDir(t *testing.T, dir string, cost time.Duration) (d *Dir, looks *atomic.Int64) {
	t.Helper()
	d, looks = newSkillDir(t, dir), new(atomic.Int64)
	d.scan = func(ctx context.Context, dir string, last *snapshot) (*snapshot, error) {
		looks.Add(1)
		<-time.After(cost)
		return readDir(ctx, dir, last)
	}
	return d, looks
}

// TestIdleDirectoriesAreLeftAlone: looks at a directory in which nothing happens take less
// than half a percent of the time, however long one takes and however many listen; and of
// one that takes no time they come often, since on some file systems nobody else tells.
func TestIdleDirectoriesAreLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		cost        time.Duration
		least, most int64 // looks in an hour
	}{
		{0, 1700, 1810},
		{10 * time.Millisecond, 850, 1440},
		{100 * time.Millisecond, 100, 145},
		{time.Second, 12, 15},
		{30 * time.Second, 9, 13}, // what is known gets no older than fresh
	} {
		t.Run(tt.cost.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, looks := slowDir(t, writeSkills(t, map[string]string{"a/SKILL.md": skillMD("a", "")}), tt.cost)
				d.watch.open = func() (*dirWatch, error) { return nil, errors.ErrUnsupported }
				for range 3 {
					listenTo(t, d, `{"skillsListChanged":true}`)
				}
				before := looks.Load()
				time.Sleep(time.Hour)
				if got := looks.Load() - before; got < tt.least || got > tt.most {
					t.Errorf("%d looks in an hour, want %d to %d", got, tt.least, tt.most)
				}
			})
		})
	}
}

// TestChangesInLargeDirectoriesAreTold: where looks are rare, it is the system that tells.
// What it tells of hidden files, and what it tells in between, costs no looks.
func TestChangesInLargeDirectoriesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := writeSkills(t, map[string]string{"a/SKILL.md": skillMD("a", ""), "group/b/SKILL.md": skillMD("b", "")})
		d, looks := slowDir(t, dir, 100*time.Millisecond)
		var events chan fsnotify.Event
		var watched []string
		failures, closed := make(chan error), 0
		d.watch.open = func() (*dirWatch, error) {
			events, watched = make(chan fsnotify.Event), nil
			return &dirWatch{
				list: func() []string { return watched },
				add:  func(dir string) error { watched = append(watched, dir); return nil },
				remove: func(gone string) error {
					watched = slices.DeleteFunc(watched, func(w string) bool { return w == gone })
					return nil
				},
				close:  func() error { closed++; close(events); return nil },
				events: events, errors: failures,
			}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var heard atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = d.Handle(ctx, &mcp.Call{Method: mcp.MethodListen,
				Params: mcp.Raw(`{"notifications":{"skillsListChanged":true}}`), Notify: func(mcp.Event) { heard.Add(1) }})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "group"),
			filepath.Join(dir, "group", "b")}; !slices.Equal(watched, want) {
			t.Errorf("watched %q, want %q", watched, want)
		}
		took := func(what string, least, most time.Duration, change func()) {
			t.Helper()
			was, began := heard.Load(), time.Now()
			change()
			for heard.Load() == was && time.Since(began) < time.Hour {
				time.Sleep(100 * time.Millisecond)
			}
			if got := time.Since(began); got < least || got > most {
				t.Errorf("%s: told after %s, want %s to %s", what, got, least, most)
			}
		}
		took("an event", 0, 3*time.Second, func() {
			writeFile(t, dir, "a/new.md", "x")
			events <- fsnotify.Event{Name: filepath.Join(dir, "a", "new.md"), Op: fsnotify.Create}
		})
		took("events that were lost", 0, 3*time.Second, func() {
			writeFile(t, dir, "a/newer.md", "x")
			failures <- fsnotify.ErrEventOverflow
		})
		took("a swap of Kubernetes", 0, 3*time.Second, func() {
			writeFile(t, dir, "a/newest.md", "x")
			events <- fsnotify.Event{Name: filepath.Join(dir, "..data"), Op: fsnotify.Create}
		})
		took("nobody tells", 3*time.Second, time.Minute, func() { writeFile(t, dir, "a/untold.md", "x") })
		took("another directory in its place", 0, 3*time.Second, func() {
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
			writeFile(t, dir, "c/SKILL.md", skillMD("c", ""))
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{dir, filepath.Join(dir, "c")}; !slices.Equal(watched, want) {
			t.Errorf("watched %q, want %q", watched, want)
		}
		before := looks.Load()
		for range 1000 {
			events <- fsnotify.Event{Name: filepath.Join(dir, "c", ".swp"), Op: fsnotify.Write}
			time.Sleep(time.Second)
		}
		if got := looks.Load() - before; got > 1000/20 {
			t.Errorf("%d looks in 1000 seconds in which hidden files changed", got)
		}
		cancel()
		<-done
		if closed != 2 {
			t.Errorf("the system was let go %d times, want once for the directory before and once when nobody listens", closed)
		}
	})
}

// TestTheSystemTellsOfChanges: the same with the system's own word, before the next look
// would come by itself.
func TestTheSystemTellsOfChanges(t *testing.T) {
	t.Parallel() // it takes some looks' time
	if w, err := openDirWatch(); err == nil {
		_ = w.close()
	} else {
		t.Skip(err) // then TestIdleDirectoriesAreLeftAlone is what holds
	}
	const cost, wait = 240 * time.Millisecond, 50 * time.Second
	if restAfter(cost) <= wait {
		t.Fatal("looks would tell, too")
	}
	dir := writeSkills(t, map[string]string{"..one/a/SKILL.md": skillMD("a", ""),
		"..two/a/SKILL.md": skillMD("a", "license: MIT\n"), "b/SKILL.md": skillMD("b", "")})
	link(t, dir, map[string]string{"..data": "..one", "a": "..data/a"})
	d, _ := slowDir(t, dir, cost)
	heard := listenTo(t, d, `{"skillsListChanged":true}`)
	for _, change := range []struct {
		name string
		make func()
	}{
		{"a file in a new directory", func() { writeFile(t, dir, "b/new/c.md", "c") }},
		{"another content of it", func() { writeFile(t, dir, "b/new/c.md", "d") }},
		{"a swap", func() {
			link(t, dir, map[string]string{"..tmp": "..two"})
			if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		change.make()
		select {
		case <-heard:
		case <-time.After(wait):
			t.Fatalf("%s: nobody tells of it", change.name)
		}
	}
}

// TestSubscriptionsToFilesOfDirectories: who subscribed to a file hears of that one, as
// often as it changes, and what is no file of a skill cannot be subscribed to.
func TestSubscriptionsToFilesOfDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := writeSkills(t, map[string]string{"a/SKILL.md": skillMD("a", ""), "a/one.md": "1", "a/two.md": "2",
			"loose.md": "x"})
		d := newSkillDir(t, dir)
		heard := make(chan string, 100)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = d.Handle(ctx, &mcp.Call{Method: mcp.MethodListen,
				Notify: func(e mcp.Event) { heard <- e.Method + " " + string(e.Params) },
				Params: mcp.Raw(`{"notifications":{"resourceSubscriptions":["skill://a/one.md","skill://a/none.md","skill://loose.md","skill://a/%6fne.md","skill://a"]}}`)})
		}()
		hear := func(want ...string) {
			t.Helper()
			time.Sleep(2 * pollEvery)
			synctest.Wait()
			var got []string
			for len(heard) > 0 {
				got = append(got, <-heard)
			}
			if !slices.Equal(got, want) {
				t.Errorf("heard %q, want %q", got, want)
			}
		}
		updated := mcp.NoteResourceUpdated + ` {"uri":"skill://a/one.md"}`
		hear(mcp.NoteAcknowledged + ` {"notifications":{"resourceSubscriptions":["skill://a/one.md"]}}`)
		writeFile(t, dir, "a/two.md", "3")
		hear()
		writeFile(t, dir, "a/one.md", "4")
		hear(updated)
		if err := os.Remove(filepath.Join(dir, "a/one.md")); err != nil {
			t.Fatal(err)
		}
		hear(updated)
		writeFile(t, dir, "a/one.md", "5")
		hear(updated)
		cancel()
		<-done
	})
}
