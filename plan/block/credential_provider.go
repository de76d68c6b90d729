package block

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/origin"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
)

// credentialProviderSpec is a program that the kubelet asks for credentials.
var credentialProviderSpec = &eval.Spec{Name: "credential_provider", Labels: []string{"name"}, Doc: "a program that " +
	"the kubelet asks for the credentials of registries; Kubernetes 1.24 and later. For \"ecr\", \"acr\" and \"gcr\" " +
	"nodejoin knows the name of the program and its images; any other name is that of the program", Attrs: []eval.Attr{
	{Name: "url", Typ: cty.String, Doc: "address of the program, one file"},
	{Name: "file", Typ: cty.String, Doc: "the program as a file on the controller, relative to the plan"},
	{Name: "sha256", Typ: cty.String, Doc: "digest of the program in hex"},
	{Name: "sha512", Typ: cty.String, Doc: "the same"},
	{Name: "program", Typ: cty.String, Doc: "name by which the kubelet calls the program, without .exe; default " +
		"ecr-credential-provider, acr-credential-provider, auth-provider-gcp, or the name of the block"},
	{Name: "match_images", Typ: eval.Strings, Doc: "images that it has credentials for, as the kubelet matches them: " +
		"\"*.registry.example\"; default those of ECR, ACR or GCR"},
	{Name: "cache", Typ: cty.String, Doc: "how long the kubelet keeps credentials that do not say so themselves; " +
		"default 12h for ECR, 10m for ACR, 1m for GCR, and else \"0s\": it asks each time"},
	{Name: "args", Typ: eval.Strings, Doc: "arguments of the program, for example the path of azure.json for ACR; " +
		"default get-credentials for ECR and GCR"},
	{Name: "env", Typ: eval.StrMap, Secret: true, Doc: "environment variables of the program; they may be sensitive"},
	{Name: "config", Typ: cty.DynamicPseudoType, Doc: "further fields of this provider in CredentialProviderConfig, " +
		"merged by key into what nodejoin writes, for example tokenAttributes"},
}}

// ownedProviderFields are fields of a provider that have an argument.
var ownedProviderFields = map[string]string{"name": "program", "matchImages": "match_images",
	"defaultCacheDuration": "cache", "args": "args", "env": "env", "apiVersion": ""}

func (j *settingJudge) credentialProvider() {
	origin.Artifact(j.Section, j.Block.DefRange, true)
	if f := j.Str("file"); f != "" { // of a profile of a module, it begins at the module's folder
		j.Values["file"] = cty.StringVal(j.Scope.Files.Home(f))
	}
	label := j.Block.Labels[0]
	if _, known := recipe.CredentialProviders[label]; !known && !j.Has("match_images") && !j.Misspelt("match_images") {
		j.FailAt(j.Block.DefRange, "missing argument", "The credential_provider block needs the argument \"match_images\": "+
			"the images that %s has credentials for.", label)
	}
	// The kubelet refuses these (pkg/credentialprovider/plugin/config.go).
	if name := j.Str("program"); name != "" && (strings.ContainsAny(name, "/\\ :") || name == "." || name == "..") {
		j.Fail("program", "invalid name", "%q is not the name of a program. Write it without its folder.", name)
	} else if strings.HasSuffix(strings.ToLower(name), ".exe") {
		j.Fail("program", "invalid name", "Write the name without .exe: nodejoin adds it on Windows.")
	}
	for i, m := range j.Strs("match_images") {
		if u, err := url.Parse("https://" + m); err != nil || u.Host == "" || strings.Contains(m, "://") {
			j.FailAt(j.AtIndex("match_images", i), "invalid image", "%q does not match images. Write HOST, HOST:PORT or "+
				"HOST/PATH, with * for a part of the host: \"*.registry.example/team\".", m)
		}
	}
	j.Duration("cache", 0, 10000*time.Hour, 0)
	for _, key := range slices.Sorted(maps.Keys(j.StrMap("env"))) {
		if key == "" || strings.ContainsAny(key, "= \x00") {
			j.FailAt(j.AtKey("env", key), "invalid name", "%q is not the name of an environment variable.", key)
		}
	}
	fields := j.Object("config", "a provider of CredentialProviderConfig is one")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if arg, owned := ownedProviderFields[name]; owned && arg != "" {
			j.Fail("config", "field that nodejoin sets", "The field %q cannot be given here: give the argument %q.", name, arg)
		} else if owned {
			j.Fail("config", "field that nodejoin sets", "The field %q cannot be given here: it goes with the version of "+
				"Kubernetes.", name)
		}
	}
}

// ProgramSource is where the program of the block comes from.
func (b SettingBlock) ProgramSource() steps.Source {
	return steps.Source{URL: b.Text("url"), File: b.Text("file"), SHA256: strings.ToLower(b.Text("sha256")),
		SHA512: strings.ToLower(b.Text("sha512"))}
}
