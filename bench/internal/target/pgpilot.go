package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack"
)

// pilot is a pgpilot of its own.
type pilot struct {
	*stack.Stack
	dsn     string
	metrics string
}

func (s *Stage) startPgpilot(ctx context.Context, spec Spec, dir string) (_ Target, err error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	cfg := config.Default()
	cfg.RunDir = filepath.Join(dir, "run")
	cfg.Listen, cfg.Observability.MetricsAddr, cfg.Bus.Listen = address(ports[0]), address(ports[1]), address(ports[2])
	cfg.Observability.Pprof = true
	servers := s.Lab.Members()
	if spec.One {
		servers = []*lab.Member{s.Lab.Primary(), s.Lab.Replicas()[0]}
	}
	for _, m := range servers {
		b := config.Backend{Name: m.Name, Address: fmt.Sprintf("%s:%d", hostOf(spec, m), m.Port)}
		if m == s.Lab.Primary() {
			cfg.Primary = b
		} else {
			cfg.Replicas = append(cfg.Replicas, b)
		}
	}
	cfg.Users = []config.User{{Name: lab.User, Password: lab.Password}}
	// Nobody is refused: a target that is slow should be seen to be slow.
	cfg.Limits.MaxClients, cfg.Pool.MaxWaiters = mostClients, mostClients
	cfg.Pool.AcquireTimeout = config.Duration(time.Minute)
	cfg.Pool.Mode = spec.Pool
	cfg.Pool.MaxSize = max(1, s.Connections/len(servers))
	cfg.Fencing.Mode = spec.Fencing
	running, err := stack.Start(ctx, stack.Options{
		Dir: dir, BinDir: s.BinDir, Config: cfg, Routers: spec.Routers, LogLevel: "warn",
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, running.Close(context.WithoutCancel(ctx)))
		}
	}()
	p := &pilot{Stack: running, metrics: "http://" + cfg.Observability.MetricsAddr + "/metrics"}
	if p.dsn, err = running.DSN(lab.User, lab.Password, lab.Database); err != nil {
		return nil, err
	}
	if err := running.WaitReplicas(ctx, p.dsn); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *pilot) DSNs() []string { return []string{p.dsn} }
func (p *pilot) Writes() string { return "" }

// Proxy are the routers.
func (p *pilot) Proxy() []int { return p.pids(rundir.Router) }

// All are the processes of every service.
func (p *pilot) All() []int { return p.pids("") }

func (p *pilot) pids(service string) []int {
	var pids []int
	for _, process := range p.Processes() {
		if service == "" || process.Service() == service {
			pids = append(pids, process.Pid())
		}
	}
	return pids
}

func (p *pilot) Stop(ctx context.Context) error { return p.Close(ctx) }

// Counters sums those of all routers.
func (p *pilot) Counters(ctx context.Context) (Counters, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.metrics, nil)
	if err != nil {
		return Counters{}, fmt.Errorf("ask for metrics: %w", err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return Counters{}, fmt.Errorf("ask for metrics: %w", err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return Counters{}, fmt.Errorf("read metrics: %w", err)
	}
	return countersOf(families), nil
}

// readReasons are the reasons of decisions about statements that are known to read
// (services/router/README.md).
var readReasons = [...]string{"read", "fence_fallback", "no_replica", "unprepared"}

func countersOf(families map[string]*dto.MetricFamily) Counters {
	var c Counters
	for _, m := range families["pgpilot_routing_decisions_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() != "reason" {
				continue
			}
			for _, reason := range readReasons {
				if l.GetValue() == reason {
					c.Reads += m.GetCounter().GetValue()
				}
			}
			if l.GetValue() == "fence_fallback" {
				c.Fallbacks += m.GetCounter().GetValue()
			}
		}
	}
	return c
}
