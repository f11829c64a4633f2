package diagnose

import (
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

const (
	// keySoon is the time before its end in which an API key is a finding, keyKnown the time after it.
	keySoon  = 14 * 24 * time.Hour
	keyKnown = 14 * 24 * time.Hour
)

// keys finds API keys that have ended, end soon, or never end.
func keys(f Facts) (all []admin.Finding) {
	var endless []string
	for _, e := range f.Keys {
		ends, name := e.Ends(), apikey.Prefix+e.ID
		if e.Revoked != "" {
			continue
		}
		if ends.IsZero() {
			endless = append(endless, name+" of "+e.User)
			continue
		}
		found := admin.Finding{
			Severity: admin.Warning, Kind: "key", Subject: name, Look: "/api/v1/config",
			Next: fmt.Sprintf("Give %s a new key (gatehouse key new), then take this one out.", e.User),
		}
		what := name
		if e.Name != "" {
			what += " (" + e.Name + ")"
		}
		left := ends.Sub(f.Now)
		switch days := int64(left / (24 * time.Hour)); {
		case left <= -keyKnown || left >= keySoon:
			continue
		case left <= 0:
			found.What, found.Since = fmt.Sprintf("The API key %s of %s has ended.", what, e.User), since(ends)
			found.Cause = fmt.Sprintf("It was good until %s. Calls with it are refused.", ends.UTC().Format(time.DateTime))
		default:
			found.What = fmt.Sprintf("The API key %s of %s ends in %s.", what, e.User, count(days, "day", "days"))
			if days == 0 {
				found.What = fmt.Sprintf("The API key %s of %s ends within a day.", what, e.User)
			}
			found.Cause = fmt.Sprintf("It is good until %s.", ends.UTC().Format(time.DateTime))
		}
		all = append(all, found)
	}
	if endless != nil {
		all = append(all, admin.Finding{
			Severity: admin.Notice, Kind: "key", Look: "/api/v1/config",
			What: fmt.Sprintf("%s never %s: %s.", count(int64(len(endless)), "API key", "API keys"),
				verb(len(endless), "ends", "end"), few(endless)),
			Cause: "No end was given. Whoever finds such a key can use it until somebody revokes it.",
			Next:  "Make new keys with an end (gatehouse key new --expires 90d), and revoke these.",
		})
	}
	return all
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
