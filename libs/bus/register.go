package bus

import (
	"fmt"
	"regexp"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+([-+].*)?$`)

// Register makes a service instance visible to `nats micro ls`. Its endpoints are
// added to the result; its Stop takes them all away.
func Register(nc *nats.Conn, service, instance, version string) (micro.Service, error) {
	// The framework wants a semantic version; builds between releases have none.
	v := version
	if !semver.MatchString(v) {
		v = "0.0.0"
	}
	s, err := micro.AddService(nc, micro.Config{
		Name:        "pgpilot-" + service,
		Version:     v,
		Description: "pgpilot " + service,
		Metadata:    map[string]string{"instance": instance, "build": version},
	})
	if err != nil {
		return nil, fmt.Errorf("register %s.%s on the bus: %w", service, instance, err)
	}
	return s, nil
}
