package target

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pgpilot/pgpilot/libs/lab"
)

const (
	folderPrefix = "pgpilot-bench-"
	labFolder    = "lab"
	// A folder this young may belong to a process that has not started its lab yet.
	sweepAge = time.Minute
)

// sweep removes what killed runs left behind in a folder of temporary files. Their
// processes have ended with them. What cannot be removed, another user's for example, is
// none of this run's business.
func sweep(ctx context.Context, temporary string, log *slog.Logger) {
	dirs, err := filepath.Glob(filepath.Join(temporary, folderPrefix+"*"))
	if err != nil {
		return // the pattern is right
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		closed, err := lab.CloseAbandoned(ctx, filepath.Join(dir, labFolder))
		if _, gone := os.Stat(filepath.Join(dir, labFolder)); !closed && !os.IsNotExist(gone) {
			log.Debug("left alone", "path", dir, "error", err)
			continue
		}
		if err := os.RemoveAll(dir); err == nil {
			log.Info("removed what a killed run left behind", "path", dir)
		}
	}
}
