package wire

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Members of _meta that the specification reserves.
const (
	metaPrefix = mcp.MetaPrefix

	// In every request, 2026-07-28 basic/index#meta.
	MetaVersion    = metaPrefix + "protocolVersion"
	MetaClientInfo = metaPrefix + "clientInfo"
	MetaClientCaps = metaPrefix + "clientCapabilities"
	MetaLogLevel   = metaPrefix + "logLevel"

	// MetaSubscriptionID is on every message of a listen stream, 2026-07-28
	// basic/patterns/subscriptions.
	MetaSubscriptionID = metaPrefix + "subscriptionId"
	// MetaServerInfo is on results, 2026-07-28 basic/index#meta.
	MetaServerInfo = metaPrefix + "serverInfo"
	// MetaRelatedTask ties a message to a task, 2025-11-25 basic/utilities/tasks.
	MetaRelatedTask = metaPrefix + "related-task"
	// MetaProgressToken has no prefix in any revision.
	MetaProgressToken = mcp.MetaProgressToken
)

// ReservedMeta reports whether a key of _meta belongs to the specification. Each edge makes
// or drops such a key, and never relays it.
func ReservedMeta[T string | []byte](key T) bool {
	return len(key) >= len(metaPrefix) && string(key[:len(metaPrefix)]) == metaPrefix
}
