package cri

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"nodejoin/steps/host"
)

// TestPod reads pods as a runtime lists them: field 3 is the state, which a pod that runs does not have.
func TestPod(t *testing.T) {
	text := func(b []byte, number protowire.Number, text string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
	}
	metadata := text(text(text(nil, 1, "web"), 2, "uid"), 3, "default")
	runs := text(text(nil, 1, "0a"), 2, string(metadata))
	ended := protowire.AppendVarint(protowire.AppendTag(runs, 3, protowire.VarintType), 1)
	ended = protowire.AppendVarint(protowire.AppendTag(ended, 4, protowire.VarintType), 1<<40) // created_at
	for want, message := range map[host.Pod][]byte{
		{ID: "0a", Namespace: "default", Name: "web"}:              runs,
		{ID: "0a", Namespace: "default", Name: "web", Ended: true}: ended,
	} {
		if have, err := pod(message); err != nil || have != want {
			t.Errorf("%+v, %v, want %+v", have, err, want)
		}
	}
	if have, err := pod(ended[:len(ended)-1]); err == nil {
		t.Errorf("a message that is cut off: %+v", have)
	}
}

// TestImage reads images as a runtime lists them: field 4 is the size, field 8 says that the kubelet keeps the image.
func TestImage(t *testing.T) {
	text := func(b []byte, number protowire.Number, text string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
	}
	message := text(text(text(nil, 1, "sha256:0a"), 2, "pause:3.10"), 3, "pause@sha256:0b")
	message = protowire.AppendVarint(protowire.AppendTag(message, 4, protowire.VarintType), 300<<20)
	message = text(protowire.AppendVarint(protowire.AppendTag(message, 8, protowire.VarintType), 1), 6, "user")
	want := host.Image{ID: "sha256:0a", Tags: []string{"pause:3.10"}, Digests: []string{"pause@sha256:0b"},
		Size: 300 << 20, Pinned: true}
	if have, err := image(message); err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("%+v, %v, want %+v", have, err, want)
	}
	for _, bad := range [][]byte{message[:len(message)-1], text(nil, 2, "no id")} {
		if have, err := image(bad); err == nil {
			t.Errorf("%x is read as %+v", bad, have)
		}
	}
}

// TestImageSpec: a request names the image in the first field of its first field.
func TestImageSpec(t *testing.T) {
	name := "registry.example/app:1"
	err := fields(imageSpec(name), func(number protowire.Number, value []byte) error {
		return fields(value, func(inner protowire.Number, text []byte) error {
			if number != 1 || inner != 1 || string(text) != name {
				t.Errorf("field %d has field %d, %q", number, inner, text)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}
