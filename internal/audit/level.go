package audit

import "github.com/gatehouse-mcp/gatehouse/internal/record"

// level is the importance of a record, for sinks that sort by it.
type level int

const (
	levelInfo    level = iota // what was asked for was done
	levelNotice               // something was refused, or has changed
	levelWarning              // something has failed
	levelError                // the gateway has failed, or records are missing
)

// levelOf returns the level of a record. docs/audit.md has the same table.
func levelOf(r *record.Record) level {
	switch r.Kind {
	case record.KindGap:
		return levelError
	case record.KindLists, record.KindRefused, record.KindDeceit:
		return levelNotice
	case record.KindSignIn, record.KindApproval:
		if r.Event == "refused" {
			return levelNotice
		}
	case record.KindReload, record.KindCredential:
		if r.Event == "refused" {
			return levelWarning
		}
	case record.KindCall:
		return levelOfCall(r)
	}
	return levelInfo
}

func levelOfCall(r *record.Record) level {
	switch r.Outcome {
	case "internal":
		return levelError
	case "upstream", "unavailable", "error":
		return levelWarning
	case "invalid", "limited", "not-approved", "sign-in-needed", "tool-error":
		return levelNotice
	}
	switch r.Approval {
	case "declined", "impossible", "refused", "expired":
		return levelNotice
	}
	return levelInfo
}
