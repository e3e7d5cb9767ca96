package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
)

// Machine is where something was measured.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory uint64 `json:"memory"` // bytes
	Kernel string `json:"kernel"`
	// ID tells machines of one kind apart, without saying which they are.
	ID string `json:"id"`
}

// ThisMachine describes the machine that this program runs on.
func ThisMachine() (Machine, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return Machine{}, fmt.Errorf("describe the machine: %w", err)
	}
	cpus, err := fs.CPUInfo()
	if err != nil {
		return Machine{}, fmt.Errorf("describe the machine: %w", err)
	}
	memory, err := fs.Meminfo()
	if err != nil {
		return Machine{}, fmt.Errorf("describe the machine: %w", err)
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return Machine{}, fmt.Errorf("describe the machine: %w", err)
	}
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		name, err := os.Hostname()
		if err != nil {
			return Machine{}, fmt.Errorf("describe the machine: %w", err)
		}
		id = []byte(name)
	}
	m := Machine{Cores: runtime.NumCPU(), Kernel: strings.TrimSpace(string(kernel)), ID: digest(id)}
	if len(cpus) > 0 {
		m.CPU = cpus[0].ModelName
	}
	if memory.MemTotalBytes != nil {
		m.Memory = *memory.MemTotalBytes
	}
	return m, nil
}

// Build is what was measured.
type Build struct {
	// Commit is the checkout's, with "-dirty" if files differ from it; "unknown" where
	// there is no repository.
	Commit string `json:"commit"`
	// Programs is a digest of the services' files, which tells builds of one commit
	// apart.
	Programs string `json:"programs"`
}

// ThisBuild describes the programs in a folder, built from the checkout that the
// working folder is in.
func ThisBuild(bin string, programs []string) (Build, error) {
	b := Build{Commit: "unknown"}
	if out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		b.Commit = strings.TrimSpace(string(out))
		if out, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err != nil || len(out) > 0 {
			b.Commit += "-dirty"
		}
	}
	all := sha256.New()
	for _, name := range programs {
		file, err := os.Open(filepath.Join(bin, name))
		if err != nil {
			return Build{}, fmt.Errorf("find the program %s (make build makes it): %w", name, err)
		}
		_, err = io.Copy(all, file)
		_ = file.Close()
		if err != nil {
			return Build{}, fmt.Errorf("read the program %s: %w", name, err)
		}
	}
	b.Programs = hex.EncodeToString(all.Sum(nil))[:digestSize]
	return b, nil
}

// digestSize is how many hexadecimal digits of a digest are kept.
const digestSize = 12

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:digestSize]
}
