package collect

import (
	"slices"
	"strings"
	"testing"

	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

// What is collected from one machine is bounded; parts over the bound are named.
func TestGatherIsBounded(t *testing.T) {
	g := &collector{}
	const most = maxTotal / maxTail
	for range most + 1 {
		g.add("logs/x", strings.Repeat("x", maxTail), true, nil)
	}
	g.add("small", "", false, nil)
	for i, p := range g.parts {
		if out := strings.HasPrefix(p.Missing, "left out: the bound of "); out != (i == most) || out && p.Text != "" {
			t.Errorf("part %d: %d bytes, %q", i, len(p.Text), p.Missing)
		}
	}
}

// What a killed run had claimed ahead and did not come to is not in the list of nodejoin's things.
func TestClaimsOfKilledRun(t *testing.T) {
	h := stepstest.OpenHost(t, "linux")
	f, err := h.Facts(t.Context())
	stepstest.Must(t, err)
	rec := stepstest.LoadRecord(t, h)
	for _, name := range []string{"/srv/made", "/srv/not-made"} {
		key := record.File.Of(name)
		rec.Claims[key] = record.Claim{Step: "s"}
		rec.Ahead = append(rec.Ahead, record.Ahead{Key: key, SHA256: stepstest.Hex256([]byte("x"))})
	}
	stepstest.Must(t, rec.Save(t.Context(), h, f))
	stepstest.Put(t, h, "/srv/made", "x")
	reply, err := Collect(t.Context(), h, CollectRequest{Node: "n"})
	stepstest.Must(t, err)
	i := slices.IndexFunc(reply.Parts, func(p Part) bool { return p.Name == "claims.json" })
	if i < 0 || !strings.Contains(reply.Parts[i].Text, `"file:/srv/made"`) ||
		strings.Contains(reply.Parts[i].Text, "not-made") {
		t.Errorf("%+v", reply.Parts)
	}
}
