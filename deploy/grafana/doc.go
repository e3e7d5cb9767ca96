// Package grafana is what Grafana shows of pgpilot: an overview dashboard, and the
// provisioning with which the compose files start it.
//
// Its tests read the dashboard as strictly as Grafana's own schema allows and every
// expression with Prometheus's parser. That the services export what the expressions
// ask for is tested in e2e, against services that run.
package grafana
