package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Check and search the records of the audit",
		Long:  "Works on files of records, which the section audit of the configuration writes.",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newAuditVerify(), newAuditQuery())
	return cmd
}

func newAuditVerify() *cobra.Command {
	var keyFile string
	var known []string
	var closed, asJSON bool
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Say whether records were changed, taken out or put in",
		Long: "Reads files of records, in any order, and says of each chain whether it is as the\n" +
			"gateway wrote it, or where it is not. Without the key that signs anchors (audit.key),\n" +
			"a chain that somebody has made up as a whole looks intact. Nobody vouches for what\n" +
			"stands behind the last anchor. Records at the end are missed by the last anchor that\n" +
			"the gateway leaves in FILE.last, after its stop (--closed), or if a later record is\n" +
			"known from elsewhere, such as the log (--anchor).\n\n" +
			"The exit code is 0 if all is well, and 1 if not.",
		Example: "  gatehouse audit verify --key-file audit.key /var/log/gatehouse/audit*.jsonl",
		Args:    needs("FILE..."),
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := verifyAudit(cmd, files, keyFile, known, closed, asJSON); err != nil {
				return &problemError{err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&keyFile, "key-file", "", "a `FILE` with the secret of audit.key; - for standard input")
	cmd.Flags().StringArrayVar(&known, "anchor", nil, "a record that has to be there, as `NUMBER:HASH`")
	cmd.Flags().BoolVar(&closed, "closed", false, "the gateway has stopped: the chain has to end with its last anchor")
	outputFlags(cmd, &asJSON, "print what was found of each chain, as JSON")
	return cmd
}

func verifyAudit(cmd *cobra.Command, files []string, keyFile string, known []string, closed, asJSON bool) error {
	key, err := readKey(cmd.InOrStdin(), keyFile)
	if err != nil {
		return err
	}
	wanted, err := readAnchors(known)
	if err != nil {
		return err
	}
	reports, err := record.VerifyFiles(files, key, wanted)
	if err != nil {
		return err
	}
	type chain struct {
		Intact bool `json:"intact"`
		*record.Report
	}
	chains := []chain{}
	out, bad := cmd.OutOrStdout(), 0
	if asJSON {
		out = io.Discard
	}
	for _, r := range reports {
		chains = append(chains, chain{r.OK(), r})
		printAudit(out, r)
		if !r.OK() || closed && !r.Closed {
			bad++
		}
		if closed && !r.Closed {
			fmt.Fprintf(out, "  the last anchor of a stop is missing: records at the end may be, too\n")
		}
	}
	if asJSON {
		if err := printJSON(cmd.OutOrStdout(), map[string]any{"chains": chains}); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d chains are not as they were written", bad, len(reports))
	}
	return nil
}

// readKey reads a secret as ${file:...} does: without a line feed at its end.
func readKey(stdin io.Reader, file string) (key []byte, err error) {
	switch file {
	case "":
		return nil, nil
	case "-":
		key, err = io.ReadAll(io.LimitReader(stdin, 64<<10))
	default:
		key, err = os.ReadFile(file)
	}
	key = bytes.TrimSuffix(key, []byte("\n"))
	if err == nil && len(key) == 0 {
		err = errors.New("the key is empty")
	}
	return key, err
}

func readAnchors(known []string) (wanted map[uint64]record.Known, err error) {
	for _, text := range known {
		number, digits, _ := strings.Cut(text, ":")
		seq, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, misuse("--anchor %q: want the number of a record, a colon and its hash", text)
		}
		hash, err := record.ParseHash(digits)
		if err != nil {
			return nil, misuse("--anchor %q: %w", text, err)
		}
		if wanted == nil {
			wanted = make(map[uint64]record.Known)
		}
		wanted[seq] = record.Known{Hash: hash, From: "--anchor"}
	}
	return wanted, nil
}

func printAudit(w io.Writer, r *record.Report) {
	state := "intact"
	if !r.OK() {
		state = "NOT INTACT"
	}
	fmt.Fprintf(w, "chain %s: %s: %d records, %d to %d\n", r.Chain, state, r.Records, r.First, r.Last)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "  %s\n", f)
	}
	if r.More > 0 {
		fmt.Fprintf(w, "  and %d more\n", r.More)
	}
	switch {
	case r.Signed:
		fmt.Fprintf(w, "  the anchors are signed with the key; the last one is record %d\n", r.Anchored)
		if r.Anchored < r.Last {
			fmt.Fprintf(w, "  not covered: records %d to %d come after it, and anybody who can write to the file can have changed them\n", r.Anchored+1, r.Last)
		}
	case r.OK():
		fmt.Fprintf(w, "  checked without a key: a chain that was made up as a whole would look the same\n")
	}
	if r.First > 1 {
		fmt.Fprintf(w, "  earlier records, 1 to %d, are in files that were not given\n", r.First-1)
	}
	if r.Lost > 0 {
		fmt.Fprintf(w, "  %d records were lost when they came, as records of gaps say\n", r.Lost)
	}
	if r.Torn > 0 {
		fmt.Fprintf(w, "  %d lines are incomplete since a crash, as the records after them say\n", r.Torn)
	}
	if !r.Compared {
		fmt.Fprintf(w, "  not covered: whether the end was cut off at an anchor: the file with the last one, .last, is not beside it\n")
	}
	if r.Closed {
		fmt.Fprintf(w, "  it ends with the stop of its gateway\n")
	} else {
		fmt.Fprintf(w, "  it is open: the gateway runs, or was killed, or records at the end are missing\n")
	}
	fmt.Fprintf(w, "  last record %d:%s\n", r.Last, r.Hash)
}
