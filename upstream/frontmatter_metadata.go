package upstream

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// textMetadata returns the frontmatter with the values of metadata as the texts that they
// are in this format (agentskills specification, metadata), though YAML takes 1.10 without
// quotation marks for a number: a client would refuse a whole list for it.
func textMetadata(frontmatter mcp.Raw) mcp.Raw {
	metadata, ok := frontmatter.Member("metadata")
	if !ok || !metadata.IsObject() {
		return frontmatter
	}
	texts := metadata.Map(func(_ []byte, value mcp.Raw) mcp.Raw {
		switch _, isText := value.StringValue(); {
		case isText:
			return value
		case value.IsNull():
			return mcp.Raw(`""`)
		}
		return mcp.String(string(value))
	})
	if len(texts) == len(metadata) && &texts[0] == &metadata[0] {
		return frontmatter
	}
	return frontmatter.With("metadata", texts)
}
