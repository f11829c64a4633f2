package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"gopkg.in/yaml.v3"
)

// baseline says, by leg and scenario, why a failure is expected.
type baseline map[string]map[string]string

func readBaseline(file string) (baseline, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var b baseline
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&b); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for leg, scenarios := range b {
		for scenario, reason := range scenarios {
			if strings.TrimSpace(reason) == "" {
				return nil, fmt.Errorf("%s: %s: %s has no reason", file, leg, scenario)
			}
		}
	}
	return b, nil
}
