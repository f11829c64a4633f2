package vault

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxTransit bounds an answer of the Vault, and a file with a token.
const maxTransit = 64 << 10

// transitPrefix begins what the transit engine wrapped. Its own text follows, vault:v<version>:...
const transitPrefix = "transit:"

var transitPattern = regexp.MustCompile(`^vault:v([0-9]{1,9}):[A-Za-z0-9+/=]+$`)

// transit wraps data keys with the transit secrets engine of a HashiCorp Vault, by its HTTP API.
type transit struct {
	cfg    Transit
	client *http.Client
	newest atomic.Int64 // the newest version of the key that was seen
}

func newTransit(cfg Transit) (*transit, error) {
	cfg = cfg.withDefaults()
	tls, err := cfg.files().Config()
	if err != nil {
		return nil, err
	}
	return &transit{cfg: cfg, client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4,
			ResponseHeaderTimeout: cfg.Timeout},
		Timeout: cfg.Timeout,
		// a token goes nowhere else
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (t *transit) close() { t.client.CloseIdleConnections() }

func (t *transit) owns(wrapped string) bool { return strings.HasPrefix(wrapped, transitPrefix) }

func (t *transit) old(wrapped string) bool {
	return versionOf(strings.TrimPrefix(wrapped, transitPrefix)) < t.newest.Load()
}

// makes has the engine make a data key (POST /transit/datakey/plaintext/:name).
func (t *transit) makes(ctx context.Context) (clear []byte, wrapped string, err error) {
	got, err := t.ask(ctx, "datakey/plaintext", map[string]any{"bits": 8 * dataKeySize})
	if err != nil {
		return nil, "", err
	}
	version := versionOf(got.ciphertext)
	if version == 0 || len(got.plaintext) != dataKeySize {
		return nil, "", errors.New("transit: the answer has no data key of 256 bits")
	}
	for before := t.newest.Load(); version > before &&
		!t.newest.CompareAndSwap(before, version); before = t.newest.Load() {
	}
	return got.plaintext, transitPrefix + got.ciphertext, nil
}

// opens has the engine open a data key (POST /transit/decrypt/:name).
func (t *transit) opens(ctx context.Context, wrapped string) ([]byte, error) {
	ciphertext := strings.TrimPrefix(wrapped, transitPrefix)
	if versionOf(ciphertext) == 0 {
		return nil, errUnreadable
	}
	got, err := t.ask(ctx, "decrypt", map[string]any{"ciphertext": ciphertext})
	if err != nil {
		return nil, err
	}
	if len(got.plaintext) != dataKeySize {
		return nil, errUnreadable
	}
	return got.plaintext, nil
}

type transitAnswer struct {
	plaintext  []byte
	ciphertext string
}

// ask makes a request. Errors have no secrets.
func (t *transit) ask(ctx context.Context, what string, params map[string]any) (answer transitAnswer, err error) {
	token, err := t.token()
	if err != nil {
		return answer, err
	}
	body, err := json.Marshal(params)
	if err != nil {
		return answer, err
	}
	at := strings.TrimSuffix(t.cfg.URL, "/") + "/v1/" + t.cfg.Mount + "/" + what + "/" + t.cfg.Key
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", mcp.UserAgent())
	req.Header.Set("X-Vault-Token", token)
	req.Header.Set("X-Vault-Request", "true")
	if t.cfg.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", t.cfg.Namespace)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return answer, fmt.Errorf("transit: %w", bare(err))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxTransit))
	if err != nil {
		return answer, fmt.Errorf("transit: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var refused struct{ Errors []string }
		_ = json.Unmarshal(text, &refused) // a text that is none says nothing
		why := printable(strings.Join(refused.Errors, "; "), token)
		if what == "decrypt" && resp.StatusCode == http.StatusBadRequest {
			return answer, fmt.Errorf("%w: transit: HTTP %d %s", errUnreadable, resp.StatusCode, why)
		}
		return answer, fmt.Errorf("transit: HTTP %d %s", resp.StatusCode, why)
	}
	var got struct {
		Data struct{ Plaintext, Ciphertext string }
	}
	if json.Unmarshal(text, &got) != nil {
		return answer, errors.New("transit: the answer is not that of a transit engine")
	}
	answer.ciphertext = got.Data.Ciphertext
	if answer.plaintext, err = base64.StdEncoding.DecodeString(got.Data.Plaintext); err != nil {
		return answer, errors.New("transit: the answer is not that of a transit engine")
	}
	return answer, nil
}

// token returns what authenticates the gateway.
func (t *transit) token() (string, error) {
	if t.cfg.TokenFile == "" {
		return string(t.cfg.VaultToken), nil
	}
	file, err := os.Open(t.cfg.TokenFile)
	if errors.Is(err, fs.ErrNotExist) && t.cfg.VaultToken != "" {
		return string(t.cfg.VaultToken), nil
	}
	if err != nil {
		return "", fmt.Errorf("transit: token_file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxTransit))
	if err != nil {
		return "", fmt.Errorf("transit: token_file: %w", err)
	}
	token := mcp.Secret(strings.TrimSpace(string(text)))
	if !tokenPattern.MatchString(string(token)) {
		return "", errors.New("transit: token_file: has no token in it")
	}
	return string(token), nil
}

// versionOf returns the version of the key in a text of the engine, 0 if it is none.
func versionOf(ciphertext string) int64 {
	match := transitPattern.FindStringSubmatch(ciphertext)
	if match == nil {
		return 0
	}
	version, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		return 0
	}
	return version
}
