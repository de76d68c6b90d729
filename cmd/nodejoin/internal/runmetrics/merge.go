package runmetrics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Merge replaces a file with the metrics that the shards of a fleet have left. Each gets the label shard, and the
// fleet's name as its plan.
func Merge(file, fleet string, shards map[int]string) error {
	all := map[string]*dto.MetricFamily{}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(shards[shard]))
		if err != nil {
			return fmt.Errorf("the metrics of shard %d cannot be read: %w", shard, err)
		}
		for name, f := range families {
			for _, m := range f.GetMetric() {
				m.Label = slices.DeleteFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "plan" })
				m.Label = append(m.Label, pair("plan", fleet), pair("shard", strconv.Itoa(shard)))
				slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
			}
			if have := all[name]; have != nil {
				have.Metric = append(have.Metric, f.GetMetric()...)
			} else {
				all[name] = f
			}
		}
	}
	return prometheus.WriteToTextfile(file, prometheus.GathererFunc(func() (out []*dto.MetricFamily, err error) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			out = append(out, all[name])
		}
		return out, nil
	}))
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }
