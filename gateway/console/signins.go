package console

import (
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// signInsPage shows the tokens that were accepted or refused, and why.
var signInsPage = page{
	path: "/sign-ins", title: "Sign-ins", menu: "Sign-ins", look: "signins", role: admin.RoleViewer,
	show: showSignIns, fresh: 3 * time.Second,
}

type signInsData struct {
	admin.Page
	User string
	Why  admin.SignIns

	Views   []string        // views at which a token can be tested
	View    string          // that was chosen
	Tested  *admin.Examined // nil if no token was
	Problem string          // why none was
}

func showSignIns(v *visit) (any, error) {
	d := signInsData{User: v.form("user"), View: v.form("view")}
	lately, failed := ofKind(200, record.KindSignIn), recent.Query{Limit: 1}
	lately.User, failed.User = d.User, d.User
	var err error
	if d.Page, err = ask(v, admin.ListDecisions, lately); err != nil {
		return d, err
	}
	if v.Can(admin.RoleOperator) && !wantsEvents(v.r) {
		d.Views = viewsOf(v)
	}
	d.Why, err = ask(v, admin.ListSignIns, failed)
	return d, err
}

// testToken shows the gateway's judgement of a token. The page never shows the token again.
var testToken = action{path: "/sign-ins", role: admin.RoleOperator, do: func(v *visit) error {
	shown, err := showSignIns(v)
	if err != nil {
		return err
	}
	d := shown.(signInsData)
	tested, err := ask(v, admin.TestToken, admin.PastedToken{Text: v.r.PostFormValue("token"), View: d.View})
	if why, not := refused(err); not {
		d.Problem = why
	} else if err != nil {
		return err
	} else {
		d.Tested = &tested
	}
	v.render(http.StatusOK, signInsPage, d)
	return nil
}}
