package steps

// Rendering is what render writes of a step, besides its line in steps.json. The zero Rendering is nothing.
// References in it are shown as such.
type Rendering struct {
	// Path is a file of the machine, and Content what is in it.
	Path, Content string
	// List is the file of the node that lists Item with those of other steps: "registry.json".
	List string
	Item any
	// Service is the name of a service, whose definition the arguments are.
	Service string
	// Name is that of a file of the cluster's Objects.
	Name    string
	Objects []map[string]any
	// Manifest is a text of objects that the plan may have for all its nodes.
	Manifest string
	// Node is a part of the Node object.
	Node *NodeParts
}

// NodeParts is what a step sets in the Node object.
type NodeParts struct {
	Labels, Annotations map[string]string
	Taints              []any
}

// RenderFor is the node and the step for which a step is rendered.
type RenderFor struct {
	OS, Node, Step string
}

// Renders makes Kind.Render of a function that takes the kind's own struct.
func Renders[S any](f func(*S, RenderFor) (Rendering, error)) func(any, RenderFor) (Rendering, error) {
	return func(step any, to RenderFor) (Rendering, error) { return f(step.(*S), to) }
}

// RendersInto makes Kind.Render of steps whose arguments are listed in a file.
func RendersInto(list string) func(any, RenderFor) (Rendering, error) {
	return func(step any, _ RenderFor) (Rendering, error) { return Rendering{List: list, Item: step}, nil }
}
