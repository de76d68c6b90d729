//go:build linux

package linux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// nft is the program of nftables, which kube-proxy runs as well.
const nft = "nft"

// FilterTables asks nft(8), whose JSON is the same everywhere (libnftables-json(5)).
func (h *Host) FilterTables(ctx context.Context) ([]host.FilterTable, error) {
	text, err := runFilter(ctx, "", nft, "--json", "list", "tables")
	if err != nil {
		return nil, err
	}
	out, err := nftTables(text)
	return out, failed("list", "filter tables", err)
}

func nftTables(text string) ([]host.FilterTable, error) {
	var list struct {
		Objects []struct {
			Table *struct{ Family, Name string } `json:"table"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("nft answers %q: %w", text, err)
	}
	out := []host.FilterTable{}
	for _, o := range list.Objects {
		if o.Table != nil {
			out = append(out, host.FilterTable{Family: o.Table.Family, Name: o.Table.Name})
		}
	}
	return out, nil
}

// DeleteFilterTables removes tables, all at once.
func (h *Host) DeleteFilterTables(ctx context.Context, tables []host.FilterTable) error {
	have, err := h.FilterTables(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var script strings.Builder
	for _, t := range have { // as nft itself names them
		if slices.Contains(tables, t) {
			fmt.Fprintf(&script, "delete table %s %s\n", t.Family, t.Name)
		}
	}
	if script.Len() == 0 {
		return nil
	}
	_, err = runFilter(ctx, script.String(), nft, "--file", "-")
	return err
}
