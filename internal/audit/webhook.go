package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// newWebhook makes a sink that sends the lines as they are. Each request has an id, the same
// when it is repeated, and perhaps a signature, by the rules of Standard Webhooks 1.0
// (standardwebhooks.com).
func newWebhook(s Sink) (*poster, error) {
	p, err := newPoster(s, "application/x-ndjson")
	if err != nil {
		return nil, err
	}
	var key []byte
	if s.Sign != "" {
		if key, err = signingKey(s.Sign); err != nil {
			return nil, err
		}
	}
	p.body = join
	p.sign = func(to http.Header, body []byte, last entry) {
		id, now := lineHash(last.line), strconv.FormatInt(time.Now().Unix(), 10)
		to.Set("webhook-id", id)
		to.Set("webhook-timestamp", now)
		if key != nil {
			to.Set("webhook-signature", webhookSignature(key, id, now, body))
		}
	}
	return p, nil
}

// lineHash returns the hash at the end of a line. It stands for everything before it in its chain.
func lineHash(line []byte) string {
	const end = len("\"}\n")
	return string(line[len(line)-end-2*sha256.Size : len(line)-end])
}

// signingKey reads a secret of the form whsec_BASE64.
func signingKey(secret mcp.Secret) ([]byte, error) {
	text, found := strings.CutPrefix(string(secret), "whsec_")
	key, err := base64.StdEncoding.DecodeString(text)
	if !found || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("want whsec_ and 24 to 64 random bytes in base64, such as whsec_$(openssl rand -base64 32)")
	}
	return key, nil
}

func webhookSignature(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
