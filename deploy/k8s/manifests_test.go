package k8s

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/pgpilot/pgpilot/libs/config"
)

// object is what every object of Kubernetes has.
type object interface {
	GetName() string
	GetNamespace() string
}

// kinds makes an empty object of each kind that the manifests may have.
var kinds = map[string]func() object{
	"v1/Namespace":                       func() object { return &corev1.Namespace{} },
	"v1/ConfigMap":                       func() object { return &corev1.ConfigMap{} },
	"v1/Secret":                          func() object { return &corev1.Secret{} },
	"v1/Service":                         func() object { return &corev1.Service{} },
	"apps/v1/Deployment":                 func() object { return &appsv1.Deployment{} },
	"apps/v1/StatefulSet":                func() object { return &appsv1.StatefulSet{} },
	"policy/v1/PodDisruptionBudget":      func() object { return &policyv1.PodDisruptionBudget{} },
	"networking.k8s.io/v1/NetworkPolicy": func() object { return &networkingv1.NetworkPolicy{} },
}

// decode reads one document the strict way: a field that its kind does not have, or
// that is there twice, is an error.
func decode(document []byte) (object, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return nil, err
	}
	empty, known := kinds[kind.APIVersion+"/"+kind.Kind]
	if !known {
		return nil, fmt.Errorf("unknown kind %s/%s", kind.APIVersion, kind.Kind)
	}
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Kind, err)
	}
	o := empty()
	unknown, err := kjson.UnmarshalStrict(text, o) // the decoder of the API server: letter case matters
	if err := errors.Join(append(unknown, err)...); err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Kind, err)
	}
	return o, nil
}

// build gives what kubectl apply -k would send.
func build(t *testing.T) []object {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), ".")
	if err != nil {
		t.Fatalf("kustomize build: %v", err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	var found []object
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		o, err := decode(document)
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		found = append(found, o)
	}
	return found
}

// of gives the objects of one kind.
func of[T object](all []object) []T {
	var found []T
	for _, o := range all {
		if t, ok := o.(T); ok {
			found = append(found, t)
		}
	}
	return found
}

// workload is what has Pods.
type workload struct {
	Name     string
	Replicas int
	Selector *metav1.LabelSelector
	Template corev1.PodTemplateSpec
}

func workloads(all []object) (found []workload) {
	for _, d := range of[*appsv1.Deployment](all) {
		found = append(found, workload{d.Name, int(*d.Spec.Replicas), d.Spec.Selector, d.Spec.Template})
	}
	for _, s := range of[*appsv1.StatefulSet](all) {
		found = append(found, workload{s.Name, int(*s.Spec.Replicas), s.Spec.Selector, s.Spec.Template})
	}
	return found
}

func TestManifestsAreWhole(t *testing.T) {
	all := build(t)
	got := map[string]int{}
	for _, o := range all {
		got[strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")]++
		if _, is := o.(*corev1.Namespace); !is && o.GetNamespace() != "pgpilot" {
			t.Errorf("%s is in the namespace %q", o.GetName(), o.GetNamespace())
		}
	}
	want := map[string]int{"Namespace": 1, "ConfigMap": 2, "Secret": 1, "Service": 3, "Deployment": 1, "StatefulSet": 1, "PodDisruptionBudget": 2, "NetworkPolicy": 2}
	for kind, n := range want {
		if got[kind] != n {
			t.Errorf("%d of kind %s, want %d", got[kind], kind, n)
		}
	}
}

// The files as they are, before kustomize, are strict too: it passes on what it does not know.
func TestWhatKubernetesDoesNotKnowIsRefused(t *testing.T) {
	text, err := os.ReadFile("pgpilot.yaml")
	if err != nil {
		t.Fatal(err)
	}
	deployment, _, _ := bytes.Cut(text, []byte("\n---\n"))
	if _, err := decode(deployment); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"readinessProbe:", "readynessProbe:"}, {"preStop:", "prestop:"}, {"medium: Memory", "media: Memory"}, {"replicas: 2", "replicas: two"}} {
		if _, err := decode(bytes.ReplaceAll(deployment, []byte(c[0]), []byte(c[1]))); err == nil {
			t.Errorf("%q instead of %q is taken", c[1], c[0])
		}
	}
}

func TestContainersAreConfined(t *testing.T) {
	for _, d := range workloads(build(t)) {
		pod := d.Template.Spec
		if c := pod.SecurityContext; c == nil || !*c.RunAsNonRoot || *c.RunAsUser != 65532 || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: security context %+v; all must run as the images' user", d.Name, c)
		}
		if *pod.AutomountServiceAccountToken {
			t.Errorf("%s can talk to Kubernetes", d.Name)
		}
		for _, c := range pod.Containers {
			s := c.SecurityContext
			if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("%s: security context %+v", c.Name, s)
			}
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
				t.Errorf("%s: resources %+v", c.Name, c.Resources)
			}
			if c.LivenessProbe == nil {
				t.Errorf("%s has no liveness probe", c.Name)
			}
		}
	}
}

// Probes, services and policies name ports that containers have.
func TestPortsFit(t *testing.T) {
	all := build(t)
	for _, d := range workloads(all) {
		pod := d.Template
		taken := map[int32]string{}
		names := map[string]bool{}
		for _, c := range pod.Spec.Containers {
			own := map[string]bool{}
			for _, p := range c.Ports {
				if other, twice := taken[p.ContainerPort]; twice {
					t.Errorf("%s and %s share port %d", c.Name, other, p.ContainerPort)
				}
				taken[p.ContainerPort], own[p.Name], names[p.Name] = c.Name, true, true
				if arg := fmt.Sprintf(":%d", p.ContainerPort); p.Name != "postgres" && p.Name != "bus" && p.Name != "routes" && c.Name != "listener" &&
					!slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "-http=") && strings.HasSuffix(a, arg) }) {
					t.Errorf("%s: nothing listens on port %d: %v", c.Name, p.ContainerPort, c.Args)
				}
			}
			for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
				if probe != nil && !own[probe.HTTPGet.Port.String()] {
					t.Errorf("%s: a probe asks port %s", c.Name, probe.HTTPGet.Port.String())
				}
			}
		}
		selector, err := metav1.LabelSelectorAsSelector(d.Selector)
		if err != nil {
			t.Fatal(err)
		}
		if !selector.Matches(labels(pod.Labels)) {
			t.Errorf("%s does not select its Pods", d.Name)
		}
		reached := 0
		for _, s := range of[*corev1.Service](all) {
			if !labels(pod.Labels).have(s.Spec.Selector) {
				continue
			}
			reached++
			for _, p := range s.Spec.Ports {
				if !names[p.TargetPort.String()] {
					t.Errorf("service %s leads to port %s", s.Name, p.TargetPort.String())
				}
			}
		}
		budgets := 0
		for _, b := range of[*policyv1.PodDisruptionBudget](all) {
			if labels(pod.Labels).have(b.Spec.Selector.MatchLabels) {
				budgets++
				if b.Spec.MinAvailable.IntValue() >= d.Replicas {
					t.Errorf("%s: no Pod may ever go", b.Name)
				}
			}
		}
		policies := 0
		for _, n := range of[*networkingv1.NetworkPolicy](all) {
			if !labels(pod.Labels).have(n.Spec.PodSelector.MatchLabels) {
				continue
			}
			policies++
			for _, rule := range n.Spec.Ingress {
				for _, p := range rule.Ports {
					if p.Port.Type == intstr.String && !names[p.Port.String()] {
						t.Errorf("policy %s lets in to port %s", n.Name, p.Port.String())
					}
				}
			}
		}
		if reached < 1 || budgets != 1 || policies != 1 {
			t.Errorf("%s has %d services, %d disruption budgets and %d network policies, want one of each, and a second service at most for routes", d.Name, reached, budgets, policies)
		}
	}
}

// labels of a Pod.
type labels map[string]string

func (l labels) Has(k string) bool              { _, ok := l[k]; return ok }
func (l labels) Get(k string) string            { return l[k] }
func (l labels) Lookup(k string) (string, bool) { v, ok := l[k]; return v, ok }

func (l labels) have(wanted map[string]string) bool {
	for k, v := range wanted {
		if l[k] != v {
			return false
		}
	}
	return len(wanted) > 0
}

// The end of a Pod is in order: the listener takes no more clients, then routers end their
// sessions, then the classifier goes, all within the grace period.
func TestPodsDrainInOrder(t *testing.T) {
	const routersDrain = 10 // seconds, see the router's README
	for _, d := range workloads(build(t)) {
		if d.Name != "pgpilot" {
			continue
		}
		at := map[string]int64{}
		for _, c := range d.Template.Spec.Containers {
			name, _, _ := strings.Cut(c.Name, "-")
			at[name] = c.Lifecycle.PreStop.Sleep.Seconds
		}
		grace := *d.Template.Spec.TerminationGracePeriodSeconds
		if !(at["listener"] < at["router"] && at["router"]+routersDrain < at["classifier"] && at["classifier"] < grace-5) {
			t.Errorf("preStop %v, grace period %d", at, grace)
		}
		return
	}
	t.Fatal("there is no Deployment pgpilot")
}

// The configurations are pgpilot's, and what they name is mounted where they say.
func TestConfigurations(t *testing.T) {
	all := build(t)
	maps := of[*corev1.ConfigMap](all)
	secret := of[*corev1.Secret](all)[0]
	services := of[*corev1.Service](all)
	for _, d := range workloads(all) {
		pod := d.Template.Spec
		mounted := map[string]string{} // by path, the volume
		for _, m := range pod.Containers[0].VolumeMounts {
			mounted[m.MountPath] = m.Name
		}
		var text string
		for _, v := range pod.Volumes {
			if v.ConfigMap != nil && mounted["/etc/pgpilot"] == v.Name {
				i := slices.IndexFunc(maps, func(m *corev1.ConfigMap) bool { return m.Name == v.ConfigMap.Name })
				if i < 0 {
					t.Fatalf("%s: there is no config map %s", d.Name, v.ConfigMap.Name)
				}
				text = maps[i].Data["pgpilot.json"]
			}
			if v.Secret != nil && (v.Secret.SecretName != secret.Name || mounted["/etc/pgpilot-secrets"] != v.Name) {
				t.Errorf("%s: secret %s is not %s in /etc/pgpilot-secrets", d.Name, v.Secret.SecretName, secret.Name)
			}
		}
		c, err := config.Parse([]byte(text), d.Name+"'s pgpilot.json")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, path := range []string{c.Users[0].PasswordFile, c.Monitor.PasswordFile, c.Bus.SecretFile} {
			if dir, name := filepath.Split(path); dir != "/etc/pgpilot-secrets/" || secret.Data[name] == nil {
				t.Errorf("%s: nothing is mounted at %q", d.Name, path)
			}
		}
		// Nobody shall run with the one in the repository.
		if len(secret.Data["bus"]) >= 32 {
			t.Errorf("pgpilot would take the secret of the bus that is checked in")
		}
		if filepath.Dir(c.RunDir) != "/run" || mounted["/run"] == "" {
			t.Errorf("%s: run_dir %s is not a folder of the volume /run: an emptyDir itself belongs to root", d.Name, c.RunDir)
		}
		if host, is := strings.CutPrefix(c.Bus.URL, "nats://"); is {
			name, port, _ := strings.Cut(host, ":")
			if !slices.ContainsFunc(services, func(s *corev1.Service) bool { return s.Name == name && fmt.Sprint(s.Spec.Ports[0].Port) == port }) {
				t.Errorf("%s: bus.url %s leads to no service", d.Name, c.Bus.URL)
			}
		}
		for i, route := range c.Bus.Cluster.Routes {
			// A Pod of a StatefulSet is called by its number, under the headless service.
			name, port, _ := strings.Cut(strings.TrimPrefix(route, fmt.Sprintf("%s-%d.", d.Name, i)), ":")
			if i >= d.Replicas || !slices.ContainsFunc(services, func(s *corev1.Service) bool {
				return s.Name == name && s.Spec.ClusterIP == corev1.ClusterIPNone && fmt.Sprint(s.Spec.Ports[0].Port) == port
			}) {
				t.Errorf("%s: bus.cluster.routes[%d] %s leads to no Pod", d.Name, i, route)
			}
		}
		if n := len(c.Bus.Cluster.Routes); c.Bus.URL == "" && n != d.Replicas {
			t.Errorf("%s: %d routes to %d Pods", d.Name, n, d.Replicas)
		}
		shown, err := json.Marshal(c.Masked())
		if err != nil || len(shown) == 0 {
			t.Error(err)
		}
	}
}
