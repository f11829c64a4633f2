package setup

import (
	"encoding/json"
	"fmt"

	"github.com/BurntSushi/toml"
)

// jsonOfTOML returns TOML as JSON. The error does not show what is in the text.
func jsonOfTOML(text string) (json.RawMessage, error) {
	root := map[string]any{}
	if _, err := toml.Decode(text, &root); err != nil {
		line := 1
		_, _ = fmt.Sscanf(err.Error(), "toml: line %d", &line)
		return nil, fmt.Errorf("line %d: this is not TOML", line)
	}
	return json.Marshal(root)
}
