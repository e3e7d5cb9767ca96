package target

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// pgpoolConf leaves pgpool-II at its defaults but for sizes, logins, and children that do not
// end by themselves. Reads go to the replicas only, as they do in pgpilot.
const pgpoolConf = `backend_clustering_mode = 'streaming_replication'
listen_addresses = '127.0.0.1'
port = %[1]d
socket_dir = '%[3]s'
pcp_listen_addresses = ''
pcp_port = %[2]d
pcp_socket_dir = '%[3]s'
pid_file_name = '%[3]s/pgpool.pid'
logdir = '%[3]s'
work_dir = '%[3]s'
enable_pool_hba = on
pool_passwd = 'pool_passwd'
num_init_children = %[4]d
max_pool = 1
child_life_time = 0
serialize_accept = on
load_balance_mode = on
sr_check_period = 10
sr_check_user = '%[5]s'
sr_check_password = '%[6]s'
sr_check_database = '%[7]s'
`

func (s *Stage) startPgpool(ctx context.Context, spec Spec, dir string) (Target, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	credential, err := unprivileged()
	if err != nil {
		return nil, err
	}
	// It keeps its sockets, pid and status there.
	private := filepath.Join(dir, "run")
	if err := os.Mkdir(private, 0o700); err != nil {
		return nil, fmt.Errorf("create a folder for pgpool-II: %w", err)
	}
	if credential != nil {
		if err := os.Chown(private, int(credential.Uid), int(credential.Gid)); err != nil {
			return nil, fmt.Errorf("give pgpool-II its folder: %w", err)
		}
	}
	var conf strings.Builder
	fmt.Fprintf(&conf, pgpoolConf, ports[0], ports[1], private, perClient, lab.User, lab.Password, lab.Database)
	for i, m := range s.Lab.Members() {
		weight := 1
		if m == s.Lab.Primary() {
			weight = 0
		}
		fmt.Fprintf(&conf, "backend_hostname%[1]d = '%[2]s'\nbackend_port%[1]d = %[3]d\nbackend_weight%[1]d = %[4]d\nbackend_application_name%[1]d = '%[5]s'\n",
			i, m.Host, m.Port, weight, m.Name)
	}
	if err := writeFiles(dir, map[string]string{
		"pgpool.conf": conf.String(),
		"pool_hba":    "host all all 127.0.0.1/32 scram-sha-256\n",
		"pool_passwd": lab.User + ":TEXT" + lab.Password + "\n",
		"pcp.conf":    "",
	}); err != nil {
		return nil, err
	}
	cmd := exec.Command(s.programs.pgpool, "-n", "-D", "-f", filepath.Join(dir, "pgpool.conf"),
		"-a", filepath.Join(dir, "pool_hba"), "-F", filepath.Join(dir, "pcp.conf"))
	cmd.Dir = private
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return s.launch(ctx, cmd, spec, dir, ports[0], lab.Database)
}
