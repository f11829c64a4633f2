package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// outputFlags adds -o, and --json for -o json.
func outputFlags(cmd *cobra.Command, asJSON *bool, usage string) {
	cmd.Flags().BoolVar(asJSON, "json", false, usage)
	cmd.Flags().VarP(&output{cmd: cmd, asJSON: asJSON, format: "text"}, "output", "o",
		"`FORMAT`: text; wide, in which nothing is cut; json, or yaml")
}

// output is the value of -o.
type output struct {
	cmd    *cobra.Command
	asJSON *bool
	format string
}

// String returns the name of the format.
func (o *output) String() string { return o.format }

// Set takes the name of a format.
func (o *output) Set(format string) error {
	*o.asJSON = format == "json" || format == "yaml"
	switch format {
	case "text", "json":
	case "wide":
		o.cmd.SetOut(wideOutput{o.cmd.OutOrStdout()})
	case "yaml":
		o.cmd.SetOut(&yamlOutput{w: o.cmd.OutOrStdout()})
	default:
		return errors.New("want text, wide, json or yaml")
	}
	o.format = format
	return nil
}

// Type names the value in the usage.
func (o *output) Type() string { return "format" }

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
	if !bytes.HasSuffix(p, []byte("\n")) && !bytes.HasSuffix(p, []byte("}")) && !bytes.HasSuffix(p, []byte("]")) {
		return len(p), nil
	}
	for decoder := json.NewDecoder(bytes.NewReader(y.left)); ; {
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil { // io.EOF, or a value goes on
			return len(p), nil
		}
		text, err := strictyaml.FromJSON(value)
		if err != nil {
			return 0, err
		}
		if _, err := y.w.Write(append([]byte("---\n"), text...)); err != nil {
			return 0, err
		}
		y.left = y.left[decoder.InputOffset():]
		decoder = json.NewDecoder(bytes.NewReader(y.left))
	}
}
