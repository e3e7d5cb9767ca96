package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pgpilot/pgpilot/bench/internal/record"
)

// pageName is the report's file.
const pageName = "report.md"

// Write writes the report into a folder and gives the path of its page.
func Write(dir string, header record.Header, groups []record.Group) (string, error) {
	results, err := Collect(header, groups)
	if err != nil {
		return "", err
	}
	charts, err := results.charts(dir)
	if err != nil {
		return "", err
	}
	var page bytes.Buffer
	results.page(&page, charts)
	path := filepath.Join(dir, pageName)
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
		return "", fmt.Errorf("write the report: %w", err)
	}
	return path, nil
}
