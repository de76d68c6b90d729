package jsonout

import "nodejoin/cmd/nodejoin/internal/selection"

// Shards is the JSON output of shards (examples/schema/shards.schema.json).
type Shards struct {
	FormatVersion string  `json:"format_version"`
	Shards        []shard `json:"shards"`
}

type shard struct {
	Shard string   `json:"shard"` // as --shard takes it
	Nodes []string `json:"nodes"`
}

// OfShards are the names of the nodes by shard, from the first.
func OfShards(lists [][]string) Shards {
	out := Shards{FormatVersion: "1"}
	for i, names := range lists {
		if names == nil {
			names = []string{}
		}
		s := selection.Shard{Index: i + 1, Count: len(lists)}
		out.Shards = append(out.Shards, shard{s.String(), names})
	}
	return out
}
