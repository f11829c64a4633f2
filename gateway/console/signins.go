package console

import (
	"errors"
	"net/http"
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

	Views   []string        // at whose endpoints a token can be tested
	View    string          // that was chosen
	Tested  *admin.Examined // nil if no token was
	Problem string          // why none was
}

func showSignIns(v *visit) (any, error) {
	d := signInsData{User: v.form("user"), View: v.form("view")}
	lately, failed := url.Values{"kind": {record.KindSignIn}, "limit": {"200"}}, url.Values{"limit": {"1"}}
	if d.User != "" {
		lately.Set("user", d.User)
		failed.Set("user", d.User)
	}
	var err error
	if d.decisions, err = v.decisions(lately); err != nil {
		return d, err
	}
	if v.Can(admin.RoleOperator) && !wantsEvents(v.r) {
		var state admin.State
		if err := v.get("/config", nil, &state); err != nil {
			return d, err
		}
		for _, view := range state.Views {
			d.Views = append(d.Views, view.Name)
		}
	}
	return d, v.get("/signins", failed, &d.Why)
}

// testToken says what the gateway thinks of a token. The page never shows it again.
var testToken = action{path: "/sign-ins", role: admin.RoleOperator, do: func(v *visit) error {
	shown, err := showSignIns(v)
	if err != nil {
		return err
	}
	d := shown.(signInsData)
	var tested admin.Examined
	err = v.ask(http.MethodPost, "/auth/test", admin.PastedToken{Text: v.r.PostFormValue("token"), View: d.View}, &tested)
	if refused, ok := errors.AsType[*apiError](err); ok {
		d.Problem = sentence(refused.Message)
	} else if err != nil {
		return err
	} else {
		d.Tested = &tested
	}
	v.render(http.StatusOK, signInsPage, d)
	return nil
}}
