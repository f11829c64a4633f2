package discovery

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

const (
	// The name of a file is this, the namespace and its end.
	filePrefix = "kubernetes-"
	fileEnd    = ".yaml"
	// mark is the first line of each file. Others are never removed.
	mark = "# Written by gatehouse discover.\n"
)

// write makes the files say what the Services do: one for each namespace that has servers. Those of other
// namespaces that it watches are removed.
func (w *watcher) write() error {
	found, left := servers(w.services, w.Domain)
	for key, why := range left {
		if w.said[key] != why.Error() {
			w.Log.Warn("a Service is left out", failure.ConfigDoubtful.Attr(), "service", key, "reason", why)
		}
		w.said[key] = why.Error()
	}
	for key := range w.said {
		if left[key] == nil {
			delete(w.said, key)
		}
	}
	before, err := filepath.Glob(filepath.Join(w.Dir, filePrefix+cmp.Or(w.Namespace, "*")+fileEnd))
	if err != nil {
		return err
	}
	var errs []error
	for namespace, list := range found {
		name := filepath.Join(w.Dir, filePrefix+namespace+fileEnd)
		before = slices.DeleteFunc(before, func(other string) bool { return other == name })
		changed, err := replace(name, list)
		errs = append(errs, err)
		if changed {
			w.Log.Info("servers of a namespace changed", "namespace", namespace, "servers", len(list))
		}
	}
	for _, name := range before {
		if text, err := os.ReadFile(name); err != nil || !bytes.HasPrefix(text, []byte(mark)) {
			continue
		}
		errs = append(errs, os.Remove(name))
		w.Log.Info("a namespace has no server any more", "namespace",
			strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), filePrefix), fileEnd))
	}
	return errors.Join(errs...)
}

// replace writes a file, if it has something else, whole or not at all.
func replace(name string, list []server) (changed bool, err error) {
	text, err := yaml.Marshal(map[string][]server{"upstreams": list})
	if err != nil {
		return false, err
	}
	text = append([]byte(mark), text...)
	if now, err := os.ReadFile(name); err == nil && bytes.Equal(now, text) {
		return false, nil
	}
	fresh, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return false, fmt.Errorf("the directory cannot be written: %w", err)
	}
	defer os.Remove(fresh.Name()) // not there any more if all went well
	_, err = fresh.Write(text)
	if err = errors.Join(err, fresh.Chmod(0o644), fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), name)
	}
	return err == nil, err
}
