package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// suiteLimit bounds one run of a suite; it takes a few seconds.
const suiteLimit = 4 * time.Minute

// results are the checks of each scenario.
type results map[string][]check

// check is the result of one check of a scenario.
type check struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Status       status `json:"status"`
	ErrorMessage string `json:"errorMessage"`
	Details      struct {
		Message string `json:"message"`
	} `json:"details"`
}

type status string

// The suite's statuses.
const (
	statusSuccess status = "SUCCESS"
	statusInfo    status = "INFO" // also used for checks that do not apply to this server
	statusWarning status = "WARNING"
	statusSkipped status = "SKIPPED"
	statusFailure status = "FAILURE"
)

// resultFolder matches the folder of a scenario's results.
var resultFolder = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// runAll runs all scenarios of a face.
func runAll(ctx context.Context, node rig.Node, f face, url, dir string) (results, error) {
	if !f.tasks {
		return runSuite(ctx, node, f, "", url, dir)
	}
	all := make(results)
	for _, scenario := range taskScenarios {
		r, err := runSuite(ctx, node, f, scenario, url, filepath.Join(dir, scenario))
		if err != nil {
			return nil, err
		}
		maps.Copy(all, r)
	}
	return all, nil
}

// runSuite runs a scenario of a face's suite against a server, or all for "", and reads the
// results. Failed checks are results, not an error.
func runSuite(ctx context.Context, node rig.Node, f face, scenario, url, dir string) (results, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteLimit)
	defer cancel()
	args := []string{node.Module(f.suite, "dist", "index.js"), "server", "--url", url, "--output-dir", dir}
	if scenario != "" {
		args = append(args, "--scenario", scenario)
	} else {
		args = append(args, "--suite", "all")
	}
	if f.tasks {
		args = append(args, "--force") // or they apply to no revision
	}
	if f.revision != nil {
		args = append(args, "--spec-version", f.revision.Name)
	}
	cmd := exec.CommandContext(ctx, node.Binary, args...)
	cmd.Dir = node.Dir
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](runErr); ok && exit.ExitCode() == 1 {
		runErr = nil // its exit code when a check failed
	}
	if runErr != nil {
		return nil, fmt.Errorf("the suite: %w\n%s", errors.Join(runErr, ctx.Err()), lastBytes(out.Bytes(), 4<<10))
	}
	r, err := readResults(dir)
	if err == nil && len(r) == 0 {
		err = fmt.Errorf("the suite left no results\n%s", lastBytes(out.Bytes(), 4<<10))
	}
	return r, err
}

func readResults(dir string) (results, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	r := make(results, len(entries))
	for _, entry := range entries {
		match := resultFolder.FindStringSubmatch(entry.Name())
		if match == nil {
			return nil, fmt.Errorf("%s is not named like a result", entry.Name())
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name(), "checks.json"))
		if err != nil {
			return nil, err
		}
		var checks []check
		if err := json.Unmarshal(data, &checks); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		r[match[1]] = checks
	}
	return r, nil
}

func lastBytes(out []byte, max int) []byte {
	if len(out) > max {
		return out[len(out)-max:]
	}
	return out
}
