package console

import (
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// signInsPage shows whose tokens were accepted and refused, and why.
var signInsPage = page{
	path: "/sign-ins", title: "Sign-ins", menu: "Sign-ins", look: "signins", role: admin.RoleViewer,
	show: showSignIns, fresh: 3 * time.Second,
}

type signInsData struct {
	decisions
	User string
	Why  []reason
}

// reason is why tokens were refused, what to do about it, how often, and the last time.
type reason struct {
	Text   string
	Next   string // "" if nothing is known
	Times  int64
	Client string // of the last one; "" if it is not known
	Last   time.Time
}

func showSignIns(v *visit) (any, error) {
	d := signInsData{User: v.form("user")}
	query := url.Values{"kind": {record.KindSignIn}, "limit": {"200"}}
	if d.User != "" {
		query.Set("user", d.User)
	}
	var err error
	d.decisions, err = v.decisions(query)
	d.Why = reasons(d.Decisions)
	return d, err
}

// reasons counts why tokens were refused, the latest reason first.
func reasons(records []admin.Decision) (all []reason) {
	at := make(map[string]int)
	for _, r := range records {
		if r.Event != "refused" {
			continue
		}
		i, known := at[r.Reason]
		if !known {
			i = len(all)
			at[r.Reason] = i
			all = append(all, reason{Text: r.Reason, Next: auth.Remedy(r.Reason), Client: r.Client, Last: r.Time})
		}
		all[i].Times += max(r.Count, 1)
	}
	return all
}
