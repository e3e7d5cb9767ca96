package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// serverUser runs the servers when the lab itself runs as root.
const serverUser = "postgres"

// account is the OS user the servers run as and whose files they are. Its credential is nil when
// that is the user running this process.
type account struct {
	name       string
	credential *syscall.Credential
}

func currentAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "uid " + strconv.Itoa(os.Geteuid())}, nil
	}
	u, err := user.Lookup(serverUser)
	var unknown user.UnknownUserError
	if errors.As(err, &unknown) {
		return account{}, fmt.Errorf("PostgreSQL refuses to run as root and there is no OS user %q: "+
			`create one with "useradd --system %s", or run the lab as an ordinary user`, serverUser, serverUser)
	}
	if err != nil {
		return account{}, fmt.Errorf("look up the OS user %s: %w", serverUser, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("read the uid of %s: %w", serverUser, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("read the gid of %s: %w", serverUser, err)
	}
	return account{name: serverUser, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// command prepares a program to run as the account, with none of the caller's PG*
// variables: PGDATA, PGPORT or PGOPTIONS would change what the lab is.
func (a account) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if libs, set := os.LookupEnv("LD_LIBRARY_PATH"); set {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+libs)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential, Setsid: true}
	return cmd
}

// own gives an open file or a folder's path to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Lchown(path, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
		return fmt.Errorf("give a file to the OS user %s: %w", a.name, err)
	}
	return nil
}

// mkdir creates a folder only the account can enter.
func (a account) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return fmt.Errorf("create a folder of the lab: %w", err)
	}
	return a.own(path)
}

// writeFile creates or replaces a file only the account can read.
func (a account) writeFile(path, content string) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("write a file of the lab: %w", err)
	}
	return a.own(path)
}

// canEnter runs a program there, which respects ACLs and every folder above.
func (a account) canEnter(ctx context.Context, dir string) bool {
	cmd := a.command(ctx, "/bin/true")
	cmd.Dir = dir
	return cmd.Run() == nil
}
