package target

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

// bouncerIni leaves everything at PgBouncer's defaults but sizes and the login, and does
// not log every connection.
const bouncerIni = `[databases]
%[1]s[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[2]d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %[3]s
pool_mode = %[4]s
default_pool_size = %[5]d
max_client_conn = %[6]d
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
	servers, users := s.serversOf(spec), filepath.Join(dir, "users.txt")
	size = max(1, size/len(servers)) // of each database
	var names []string
	var databases strings.Builder
	for _, m := range servers {
		names = append(names, m.Name)
		fmt.Fprintf(&databases, "%s = host=%s port=%d dbname=%s\n", m.Name, hostOf(spec, m), m.Port, lab.Database)
	}
	ini := fmt.Sprintf(bouncerIni, databases.String(), ports[0], users, spec.Pool, size, mostClients)
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
		credential, err = ownerOf(servers[0].SocketDir()) // nobody else may use it
	}
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return s.launch(ctx, cmd, spec, dir, ports[0], names...)
}

// launch starts a program that is a whole target, in which clients find these databases.
func (s *Stage) launch(ctx context.Context, cmd *exec.Cmd, spec Spec, dir string, port int, databases ...string) (Target, error) {
	p, err := start(cmd, spec.Title, filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	if err := p.accepts(ctx, address(port)); err != nil {
		_ = p.stop(ctx)
		return nil, err
	}
	reads, writes := apart(spec, urls(port, databases))
	return proxy{p, reads, writes}, nil
}
