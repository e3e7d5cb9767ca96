package obs

import (
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry gives a registry with the collectors every service has: the Go
// runtime, the process, and pgpilot_build_info.
func NewRegistry(version string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pgpilot_build_info",
		Help: "Always 1; the label is the version of this build.",
	}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	// What the heap had at the last collection. Its size between two of them tells little.
	alive := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}
	reg.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(alive)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build,
	)
	return reg
}
