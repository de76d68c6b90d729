package block

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/steps"
)

// proxySpec is the proxy of a machine.
var proxySpec = &eval.Spec{Name: "proxy", One: true,
	Doc: "the proxy of the machine and of the services that talk to the outside, as environment variables",
	Attrs: []eval.Attr{
		{Name: "http", Typ: cty.String, Secret: true, Doc: "URL of the proxy for http, \"http://proxy.example:3128\"; " +
			"with user and password in it, or sensitive, it is never shown, but every user of the machine can read its " +
			"environment"},
		{Name: "https", Typ: cty.String, Secret: true, Doc: "URL of the proxy for https"},
		{Name: "no_proxy", Typ: eval.Strings,
			Doc: "what goes without a proxy besides this machine, the API server, and the networks and names of the cluster"},
		keepAttr,
	}}

func (j *settingJudge) proxy() {
	for _, name := range []string{"http", "https"} {
		text := j.Str(name)
		if text == "" {
			continue
		}
		shown := strconv.Quote(steps.ShowCredentials(text))
		if j.Sensitive[name] {
			shown = "The value"
		}
		u, err := url.Parse(text)
		switch {
		case strings.ContainsAny(text, " \t\r\n\x00"):
			j.Fail(name, "invalid proxy", "%s holds a space or a control character. Write it as http://HOST:PORT; in a user "+
				"or password %%20 stands for a space.", shown)
		case !strings.Contains(text, "://"):
			j.Fail(name, "invalid proxy",
				"%s has no scheme, and programs interpret it differently. Write it as http://HOST:PORT.", shown)
		case err != nil || u.Hostname() == "":
			j.Fail(name, "invalid proxy", "%s is not a URL. Write it as http://HOST:PORT; characters such as '@', ':', '/' "+
				"and '#' in a user or password are written as %%40, %%3A, %%2F and %%23.", shown)
		case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5":
			j.Fail(name, "invalid proxy", "%s has a scheme that no program of a node supports for a proxy. Use http, "+
				"https or socks5; a proxy for https usually has http.", shown)
		case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
			j.Fail(name, "invalid proxy", "%s has a path, but the URL of a proxy has none. Write it as "+
				"http://HOST:PORT.", shown)
		}
	}
	for i, e := range j.Strs("no_proxy") {
		at := j.AtIndex("no_proxy", i)
		switch {
		case e == "" || strings.ContainsAny(e, " \t\r\n,"):
			j.FailAt(at, "invalid exception", "%q cannot stand in NO_PROXY: it is empty or holds a space or a comma, which "+
				"ends it. Each element of the list is one name, address or network.", e)
		case strings.Contains(e, "://"):
			j.FailAt(at, "invalid exception", "%q is a URL. NO_PROXY has names (\"example.com\"; with a leading dot, "+
				"only subdomains), addresses and networks.", e)
		case e == "*":
			j.FailAt(at, "invalid exception",
				"\"*\" lets everything go without the proxy, so it would have no effect. Remove it, or the proxy block.")
		}
	}
}
