package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// newHealth makes the command that asks a gateway whether it is well, for containers and scripts.
func newHealth() *cobra.Command {
	o, ready := &operator{}, false
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Say by the exit code whether a gateway runs, or is ready",
		Long: "Asks the admin listener of a gateway (admin.listen) whether it runs (/healthz), or with --ready\n" +
			"whether it takes new sessions (/readyz). The exit code is 1 if not. It needs no token.",
		Args: noArguments,
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether it takes new sessions, and why not")
	return askingCommand(cmd, o, func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), answerTimeout)
		defer cancel()
		said, err := "ok", error(nil)
		if ready {
			said, err = "ready", o.ready(ctx)
		} else {
			err = o.alive(ctx)
		}
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
		}
		return err
	})
}

// alive returns an error if the gateway does not answer as one that runs.
func (o *operator) alive(ctx context.Context) error {
	resp, err := o.request(ctx, http.MethodGet, "/healthz", nil, http.StatusOK)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// ready returns an error with the reasons if the gateway takes no new sessions.
func (o *operator) ready(ctx context.Context) error {
	resp, err := o.request(ctx, http.MethodGet, "/readyz", nil, http.StatusOK, http.StatusServiceUnavailable)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Ready   bool
		Reasons []string
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostAnswer)).Decode(&answer); err != nil {
		return fmt.Errorf("reading the answer of /readyz: %w", err)
	}
	if !answer.Ready {
		return errors.New("not ready: " + shown(strings.Join(answer.Reasons, "; ")))
	}
	return nil
}
