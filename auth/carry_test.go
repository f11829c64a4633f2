package auth_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestCallerAtAnotherReplica: another replica reads the same caller. A text that is cut off, or
// longer, is no other caller with fewer or more fields.
func TestCallerAtAnotherReplica(t *testing.T) {
	nobody := mcp.NewCaller(mcp.Caller{})
	somebody := mcp.NewCaller(mcp.Caller{Issuer: "https://issuer.example", Subject: "alice", ClientID: "app",
		View: "sales", Groups: []string{"a", "", "b"}, Scopes: []string{"mcp"},
		Claims: mcp.Raw(`{"sub":"alice"}`), Expires: time.Date(2026, 7, 28, 1, 2, 3, 4, time.UTC), Token: "token"})
	elsewhere := somebody
	elsewhere.From = mcp.Origin{Address: "192.0.2.7", Agent: "client/1.0 (a test)"}
	for _, c := range []mcp.Caller{nobody, somebody, elsewhere} {
		text, err := auth.WriteCaller(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := auth.ReadCaller(text)
		if len(got.Groups) == 0 {
			got.Groups, got.Scopes = nil, nil
		}
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v, %v, want %+v", got, err, c)
		}
		if c.From != (mcp.Origin{}) {
			continue
		}
		for n := range text[:len(text)-4] { // without its last scope it is another caller
			if got, err := auth.ReadCaller(text[:n]); err == nil {
				t.Errorf("the first %d bytes of %d are %+v", n, len(text), got)
			}
		}
		if _, err := auth.ReadCaller(append(text, 9)); err == nil {
			t.Error("a field that is missing is read")
		}
	}
}
