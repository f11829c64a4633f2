package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// suiteLimit bounds one run of a suite; it takes a few seconds.
const suiteLimit = 4 * time.Minute

// results are the checks of each scenario that was run.
type results map[string][]check

// check is one thing that a scenario looked at.
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

// The suite's words.
const (
	statusSuccess status = "SUCCESS"
	statusInfo    status = "INFO" // among others: the check does not apply to this server
	statusWarning status = "WARNING"
	statusSkipped status = "SKIPPED"
	statusFailure status = "FAILURE"
)

// resultFolder is how the suite names the folder of a scenario's result.
var resultFolder = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// runSuite runs all scenarios of a leg's suite against a server and reads what they
// found. That some failed is a result, not an error.
func runSuite(ctx context.Context, node rig.Node, l leg, url, dir string) (results, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteLimit)
	defer cancel()
	args := []string{node.Module(l.suite, "dist", "index.js"), "server", "--url", url, "--suite", "all", "--output-dir", dir}
	if l.revision != "" {
		args = append(args, "--spec-version", l.revision)
	}
	cmd := exec.CommandContext(ctx, node.Binary, args...)
	cmd.Dir = node.Dir
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](runErr); ok && exit.ExitCode() == 1 {
		runErr = nil // it exits so when a check failed
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
