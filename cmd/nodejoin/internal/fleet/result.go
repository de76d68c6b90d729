package fleet

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"nodejoin/steps/kube"
)

// mostReport bounds a packed report, in bytes.
const mostReport = 64 << 20

// mostPlain is the longest result that is kept as text, in bytes.
const mostPlain = 900 << 10

// Result is what a shard leaves.
type Result struct {
	Shard, Shards int
	Command       string
	Code          int
	Ended         time.Time
	Retried       int    // retries of the shard before this result
	Stderr        string // the end of it; "" where nothing failed
	Metrics       string // of Prometheus, as text; "" = none
	Report        []byte // JSON of the command; empty = it wrote none
}

// resultOf is the label of a ConfigMap with a result; its value is the name of the Job.
const resultOf = "nodejoin.dev/result-of"

// object is the ConfigMap of the result.
func (r Result) object(namespace, job, uid string) (kube.Manifest, error) {
	if job == "" || uid == "" {
		return kube.Manifest{}, errors.New("NODEJOIN_FLEET_JOB and NODEJOIN_FLEET_JOB_UID are not set")
	}
	m := object("v1", "ConfigMap", namespace, fmt.Sprintf("%s-%d", job, r.Shard))
	meta := m.Object["metadata"].(map[string]any)
	meta["labels"] = map[string]any{"app.kubernetes.io/managed-by": "nodejoin", resultOf: job}
	meta["ownerReferences"] = []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid}}
	data := map[string]any{"shard": strconv.Itoa(r.Shard), "shards": strconv.Itoa(r.Shards), "command": r.Command,
		"exit_code": strconv.Itoa(r.Code), "ended": r.Ended.Format(time.RFC3339), "retried": strconv.Itoa(r.Retried)}
	if r.Stderr != "" {
		data["stderr"] = r.Stderr
	}
	m.Object["data"], m.Force = data, true
	binary := map[string]any{}
	if len(r.Report) <= mostPlain {
		data["report.json"] = string(r.Report)
	} else {
		binary["report.json.gz"] = packed(r.Report)
	}
	if r.Metrics != "" {
		binary["metrics.prom.gz"] = packed([]byte(r.Metrics))
	}
	if len(binary) > 0 {
		m.Object["binaryData"] = binary
	}
	return m, nil
}

// packed is text for binaryData.
func packed(text []byte) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(text)
	if err = errors.Join(err, z.Close()); err != nil {
		return "" // memory can be written
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// owned reports whether an owner of the object has a value in a field.
func owned(o map[string]any, key, value string) bool {
	owners, _ := field(o, "metadata")["ownerReferences"].([]any)
	return slices.ContainsFunc(owners, func(v any) bool {
		m, _ := v.(map[string]any)
		return m[key] == value
	})
}

// resultFrom reads the ConfigMap of a result.
func resultFrom(o map[string]any) (r Result, err error) {
	data := field(o, "data")
	text := func(k string) string { s, _ := data[k].(string); return s }
	r.Command, r.Stderr, r.Report = text("command"), text("stderr"), []byte(text("report.json"))
	var errs []error
	for k, at := range map[string]*int{"shard": &r.Shard, "shards": &r.Shards, "exit_code": &r.Code,
		"retried": &r.Retried} {
		n, err := strconv.Atoi(text(k))
		*at = n
		errs = append(errs, err)
	}
	r.Ended, err = time.Parse(time.RFC3339, text("ended"))
	errs = append(errs, err)
	binary := field(o, "binaryData")
	if binary["report.json.gz"] != nil {
		r.Report, err = unpacked(binary["report.json.gz"])
		errs = append(errs, err)
	}
	if binary["metrics.prom.gz"] != nil {
		metrics, err := unpacked(binary["metrics.prom.gz"])
		r.Metrics = string(metrics)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return r, fmt.Errorf("the ConfigMap %v is not the result of a shard: %w", field(o, "metadata")["name"], err)
	}
	return r, nil
}

func unpacked(v any) ([]byte, error) {
	text, _ := v.(string)
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, mostReport))
}
