package console

import (
	"net/url"
	"time"

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
	Why  admin.SignIns
}

func showSignIns(v *visit) (any, error) {
	d := signInsData{User: v.form("user")}
	lately, failed := url.Values{"kind": {record.KindSignIn}, "limit": {"200"}}, url.Values{"limit": {"1"}}
	if d.User != "" {
		lately.Set("user", d.User)
		failed.Set("user", d.User)
	}
	var err error
	if d.decisions, err = v.decisions(lately); err != nil {
		return d, err
	}
	return d, v.get("/signins", failed, &d.Why)
}
