package record

import (
	"encoding/json"
	"strings"
	"time"
)

// record1 is the layout of nodejoin 0.1. What it does not name is as in Record.
type record1 struct {
	Record
	Owned    map[string]Claim    `json:"owned"`
	Settings map[string][]string `json:"settings"`
	Trial    *snapshot1          `json:"trial"`
}

type snapshot1 struct {
	Node     string               `json:"node"`
	Ready    bool                 `json:"ready"`
	Version  string               `json:"version"`
	Given    json.RawMessage      `json:"given"`
	Begun    time.Time            `json:"begun"`
	Kept     map[string]Item      `json:"kept"`
	Archives map[string]*Unpacked `json:"archives"`
	Ended    bool                 `json:"ended"`
	Back     *Rollback            `json:"back"`
}

// backupSuffix1 ended the name of a file that nodejoin 0.1 had put out of the way. The
// claim of a backup holds in Detail where the file lies.
const backupSuffix1 = ".nodejoin-aside"

// parseVersion1 converts a record of version 1; nothing of it is dropped.
func parseVersion1(b []byte) (*Record, error) {
	var old record1
	if err := json.Unmarshal(b, &old); err != nil {
		return nil, err
	}
	rec := old.Record
	rec.Claims = map[Key]Claim{}
	for text, c := range old.Owned {
		key, err := parseKey1(text)
		if err != nil {
			return nil, err
		}
		rec.Claims[key] = backup1(key, c)
	}
	rec.Settings = map[string][]Key{}
	for plan, list := range old.Settings {
		for _, text := range list {
			key, err := parseKey1(text)
			if err != nil {
				return nil, err
			}
			rec.Settings[plan] = append(rec.Settings[plan], key)
		}
	}
	if old.Trial != nil {
		var err error
		if rec.Snapshot, err = old.Trial.convert(); err != nil {
			return nil, err
		}
	}
	return &rec, nil
}

func parseKey1(text string) (Key, error) {
	key, err := ParseKey(text)
	if key.Prefix == "aside" {
		key.Prefix = Backup
	}
	return key, err
}

func backup1(key Key, c Claim) Claim {
	if key.Prefix == Backup {
		c.Detail = key.Name + backupSuffix1
	}
	return c
}

func (t *snapshot1) convert() (*Snapshot, error) {
	node, err := json.Marshal(struct {
		UID     string          `json:"uid,omitempty"`
		Ready   bool            `json:"ready,omitempty"`
		Version string          `json:"version,omitempty"`
		Given   json.RawMessage `json:"given,omitempty"`
	}{t.Node, t.Ready, t.Version, t.Given})
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Node: node, Begun: t.Begun, Items: map[Key]Item{}, Archives: t.Archives, Closed: t.Ended,
		RolledBack: t.Back}
	for text, item := range t.Kept {
		if strings.HasPrefix(text, "dropped:") { // its file only waits to be removed
			s.Leftover = append(s.Leftover, item.Blob)
			continue
		}
		key, err := parseKey1(text)
		if err != nil {
			return nil, err
		}
		item.Claim = backup1(key, item.Claim)
		s.Items[key] = item
	}
	return s, nil
}
