package doctor

import "nodejoin/steps"

// Symptoms that the controller finds: it has the tables of pause images, and DiagnoseReply the image. The last one is
// found by KubeProxies.
const (
	PauseImageSymptom     = "pause-image"
	PortForwardSymptom    = "port-forward"
	KubeProxyTwiceSymptom = "kube-proxy-twice"
)

const pauseWhy = "every pod begins with a pause container, which holds its addresses while its containers come and " +
	"go; on Windows its image must be made for the machine's build, or the pod stays in ContainerCreating"

// controllerSymptoms are the symptoms that the controller finds, and no part of an agent.
var controllerSymptoms = []steps.Findable{
	{ID: PauseImageSymptom, Severity: steps.SeverityError, Doc: pauseWhy},
	{ID: PortForwardSymptom, Severity: steps.SeverityWarning,
		Doc: "kubectl port-forward runs the program wincat inside the pause container, which its image has from " +
			"1.4.1 on"},
	{ID: KubeProxyTwiceSymptom, Severity: steps.SeverityWarning,
		Doc: "two kube-proxies on a node write the same rules, each as its own configuration says, and only one gets " +
			"the ports that both listen on"},
}
