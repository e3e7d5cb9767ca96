package target

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

// bouncerIni leaves everything at PgBouncer's defaults but sizes and the login, and does
// not log every connection.
const bouncerIni = `[databases]
%[1]s = host=%[2]s port=%[3]d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[4]d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %[5]s
pool_mode = %[6]s
default_pool_size = %[7]d
max_client_conn = %[8]d
log_connections = 0
log_disconnections = 0
`

func (s *Stage) startPgBouncer(ctx context.Context, spec Spec, dir string) (Target, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	size := s.Connections
	if spec.Pool == config.Session {
		size = perClient
	}
	primary, users := s.Lab.Primary(), filepath.Join(dir, "users.txt")
	ini := fmt.Sprintf(bouncerIni, lab.Database, hostOf(spec, primary), primary.Port, ports[0], users, spec.Pool, size, mostClients)
	if s.programs.bouncerPrepares {
		ini += "max_prepared_statements = 200\n"
	}
	if err := writeFiles(dir, map[string]string{
		"users.txt":     fmt.Sprintf("%q %q\n", lab.User, lab.Password),
		"pgbouncer.ini": ini,
	}); err != nil {
		return nil, err
	}
	cmd := exec.Command(s.programs.pgbouncer, filepath.Join(dir, "pgbouncer.ini"))
	credential, err := unprivileged()
	if err == nil && credential != nil && spec.Unix {
		credential, err = ownerOf(primary.SocketDir()) // nobody else may use it
	}
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return s.launch(ctx, cmd, spec, dir, ports[0])
}

// launch starts a program that is a whole target.
func (s *Stage) launch(ctx context.Context, cmd *exec.Cmd, spec Spec, dir string, port int) (Target, error) {
	p, err := start(cmd, spec.Title, filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	if err := p.accepts(ctx, address(port)); err != nil {
		_ = p.stop(ctx)
		return nil, err
	}
	return proxy{p, port}, nil
}
