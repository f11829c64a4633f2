package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// outputFlags adds -o, and --json for -o json.
func outputFlags(cmd *cobra.Command, asJSON *bool, usage string) {
	cmd.Flags().BoolVar(asJSON, "json", false, usage)
	cmd.Flags().FuncP("output", "o", "`FORMAT`: text, the default; wide, in which nothing is cut; json, or yaml",
		func(format string) error {
			*asJSON = format == "json" || format == "yaml"
			cmd.SetOut(nil) // that of the whole program, where an -o was before
			switch format {
			case "text", "json":
			case "wide":
				cmd.SetOut(wideOutput{cmd.OutOrStdout()})
			case "yaml":
				cmd.SetOut(&yamlOutput{w: cmd.OutOrStdout()})
			default:
				return errors.New("want text, wide, json or yaml")
			}
			return nil
		})
}

// wideOutput is an output in which tables cut nothing.
type wideOutput struct{ io.Writer }

// yamlOutput writes the JSON values that are written to it as documents of YAML.
type yamlOutput struct {
	w    io.Writer
	left []byte // the beginning of a value
}

// Write takes a part of the text of JSON values.
func (y *yamlOutput) Write(p []byte) (int, error) {
	y.left = append(y.left, p...)
	for {
		var value json.RawMessage
		decoder := json.NewDecoder(bytes.NewReader(y.left))
		if decoder.Decode(&value) != nil { // it goes on
			return len(p), nil
		}
		y.left = y.left[decoder.InputOffset():]
		text, err := strictyaml.FromJSON(value)
		if err == nil {
			_, err = fmt.Fprintf(y.w, "---\n%s", text)
		}
		if err != nil {
			return 0, err
		}
	}
}
