package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// maxList bounds one answer of WaitTools in bytes.
const maxList = 16 << 20

// WaitTools waits until the first page of the gateway's list has tools of all these names.
func (g Gateway) WaitTools(ctx context.Context, names ...string) error {
	return g.WaitFor(ctx, func(ctx context.Context) error {
		have, err := g.tools(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !have[name] {
				return fmt.Errorf("the gateway does not list %q", name)
			}
		}
		return nil
	})
}

// tools requests the list of tools as a stateless client.
func (g Gateway) tools(ctx context.Context) (map[string]bool, error) {
	meta := mcp.Object(
		wire.MetaVersion, mcp.String(wire.Stateless().Name),
		wire.MetaClientInfo, mcp.Object("name", mcp.String("rig"), "version", mcp.String("1")),
		wire.MetaClientCaps, mcp.Raw("{}"),
	)
	body := wire.AppendRequest(nil, mcp.Raw("1"), mcp.MethodToolsList, mcp.Object("_meta", meta))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(wire.HeaderVersion, wire.Stateless().Name)
	req.Header.Set(wire.HeaderMethod, mcp.MethodToolsList)
	if g.token != "" {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxList))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Result *struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || answer.Result == nil {
		return nil, fmt.Errorf("tools/list: status %d: %s", resp.StatusCode, tail(data, 512))
	}
	names := make(map[string]bool, len(answer.Result.Tools))
	for _, tool := range answer.Result.Tools {
		names[tool.Name] = true
	}
	return names, nil
}
