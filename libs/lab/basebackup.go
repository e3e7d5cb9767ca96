package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"
)

// baseBackup is the command of the "Streaming Replication Protocol" chapter. The replica
// fetches the WAL itself through its slot, and nobody needs a manifest.
const baseBackup = `BASE_BACKUP (LABEL 'lab', CHECKPOINT 'fast', WAL false, WAIT false, MANIFEST 'no')`

// copyBase writes a base backup of the source into an existing empty folder.
func copyBase(ctx context.Context, source *Member, dir string, acc account) error {
	cfg, err := pgconn.ParseConfig(source.DSNFor(superUser, source.cluster.superPassword, "postgres"))
	if err != nil {
		return fmt.Errorf("prepare a base backup: %w", err)
	}
	cfg.RuntimeParams["replication"] = "true"
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect to %s for a base backup: %w", source.Name, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	reader, writer := io.Pipe()
	extracted := make(chan error, 1)
	go func() {
		err := extract(reader, dir, acc)
		_ = reader.CloseWithError(err) // ends the copy below
		extracted <- err
	}()
	_, copyErr := conn.CopyTo(ctx, &archiveWriter{to: writer}, baseBackup)
	_ = writer.CloseWithError(copyErr)
	if err := <-extracted; err != nil {
		return fmt.Errorf("take a base backup of %s: %w", source.Name, err)
	}
	if copyErr != nil {
		return fmt.Errorf("take a base backup of %s: %w", source.Name, copyErr)
	}
	return nil
}

// archiveWriter takes the payloads of CopyData messages and passes on the content of
// the one archive a lab has.
type archiveWriter struct{ to io.Writer }

// Write gets exactly one message: its kind, then its content.
func (w *archiveWriter) Write(message []byte) (int, error) {
	if len(message) == 0 {
		return 0, errors.New("empty message in a base backup")
	}
	switch content := message[1:]; message[0] {
	case 'n': // new archive: file name, tablespace path
		if name, _, _ := bytes.Cut(content, []byte{0}); string(name) != "base.tar" {
			return 0, fmt.Errorf("the lab can not copy tablespace %s: drop it before adding a replica", name)
		}
	case 'd':
		if _, err := w.to.Write(content); err != nil {
			return 0, err
		}
	case 'p': // progress
	default:
		return 0, fmt.Errorf("unknown message %q in a base backup", message[0])
	}
	return len(message), nil
}

func extract(from io.Reader, dir string, acc account) error {
	archive := tar.NewReader(from)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, from)
			return err
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("unexpected path %q", header.Name)
		}
		path := filepath.Join(dir, header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			if err := acc.mkdir(path); err != nil {
				return err
			}
		case tar.TypeReg:
			if err := extractFile(archive, path, acc); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unexpected kind of file: %s", header.Name)
		}
	}
}

func extractFile(from io.Reader, path string, acc account) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return acc.own(path)
}
