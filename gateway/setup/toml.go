package setup

import (
	"encoding/json"
	"fmt"

	"github.com/BurntSushi/toml"
)

// jsonOfTOML returns the servers in the file of Codex as the other clients write them, in JSON.
func jsonOfTOML(text string) (string, error) {
	var root map[string]any
	if _, err := toml.Decode(text, &root); err != nil {
		return "", fmt.Errorf("this is not TOML: %w", err)
	}
	raw, err := json.Marshal(map[string]any{"mcp_servers": root["mcp_servers"]})
	if err != nil {
		return "", fmt.Errorf("this TOML has a value that no server has: %w", err)
	}
	return string(raw), nil
}
