package wire

// LogDebug is the level that lets all messages through.
const LogDebug = "debug"

// logRank orders the levels of RFC 5424 as the protocol writes them, 0 for others.
func logRank(level string) int {
	switch level {
	case LogDebug:
		return 1
	case "info":
		return 2
	case "notice":
		return 3
	case "warning":
		return 4
	case "error":
		return 5
	case "critical":
		return 6
	case "alert":
		return 7
	case "emergency":
		return 8
	}
	return 0
}

// ValidLogLevel reports whether the protocol has this level.
func ValidLogLevel(level string) bool { return logRank(level) > 0 }

// LogLevelAtLeast reports whether a message of this level is for a client that wants the
// level least and above. It is false for unknown levels.
func LogLevelAtLeast(level, least string) bool {
	return logRank(level) > 0 && logRank(least) > 0 && logRank(level) >= logRank(least)
}
