package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
)

// File is a record that is being written. It belongs to one goroutine.
type File struct {
	file   *os.File
	groups []Group
	header Header
}

// Load reads a record. A last line that is incomplete is left out.
func Load(path string) (Header, []Group, error) {
	h, groups, _, err := load(path)
	return h, groups, err
}

// load also gives the size of what is complete.
func load(path string) (Header, []Group, int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Header{}, nil, 0, fmt.Errorf("read the results: %w", err)
	}
	var h Header
	var groups []Group
	size, line := int64(0), 0
	for {
		at := bytes.IndexByte(text, '\n')
		if at < 0 {
			break
		}
		line++
		if line == 1 {
			err = json.Unmarshal(text[:at], &h)
		} else {
			var g Group
			err = json.Unmarshal(text[:at], &g)
			groups = append(groups, g)
		}
		if err != nil {
			return Header{}, nil, 0, fmt.Errorf("line %d of %s is not a result: %w", line, path, err)
		}
		text = text[at+1:]
		size += int64(at + 1)
	}
	switch {
	case line == 0:
		return Header{}, nil, 0, fmt.Errorf("%s has no results: remove it", path)
	case h.Format != format:
		return Header{}, nil, 0, fmt.Errorf("%s has format %d, this program reads %d: remove it, or choose another file", path, h.Format, format)
	}
	return h, groups, size, nil
}

// Open opens the record at path to go on with it, or makes it. It refuses one of another
// machine, build or plan.
func Open(path string, want Header) (*File, error) {
	want.Format = format
	have, groups, size, err := load(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return nil, err
	}
	if !fresh {
		if err := have.continues(want); err != nil {
			return nil, fmt.Errorf("%s cannot be continued: %w; remove it, or choose another file with -out", path, err)
		}
		want = have
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the results: %w", err)
	}
	f := &File{file: file, groups: groups, header: want}
	if fresh {
		err = f.write(want)
	} else if err = file.Truncate(size); err == nil {
		_, err = file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the results: %w", err), file.Close())
	}
	return f, nil
}

// continues says why a record with header h cannot be continued by a run that would have
// written want.
func (h Header) continues(want Header) error {
	switch {
	case h.Machine != want.Machine:
		return fmt.Errorf("it is of another machine (%s, %d cores, kernel %s)", h.Machine.CPU, h.Machine.Cores, h.Machine.Kernel)
	case h.Build != want.Build:
		return fmt.Errorf("it is of another build (commit %s, programs %s; this is commit %s, programs %s)", h.Build.Commit, h.Build.Programs, want.Build.Commit, want.Build.Programs)
	case !reflect.DeepEqual(h.Programs, want.Programs):
		return fmt.Errorf("it compares other versions (%v; here are %v)", h.Programs, want.Programs)
	case !reflect.DeepEqual(h.Plan, want.Plan):
		return fmt.Errorf("it has another plan (%s)", h.Plan.Name)
	}
	return nil
}

// Header is the first line.
func (f *File) Header() Header { return f.header }

// Groups are all that the file has.
func (f *File) Groups() []Group { return f.groups }

// Has says whether a group was measured already.
func (f *File) Has(round int, name string) bool {
	for _, g := range f.groups {
		if g.Round == round && g.Case == name {
			return true
		}
	}
	return false
}

// Append adds a complete group and makes sure that it is on the disk.
func (f *File) Append(g Group) error {
	if err := f.write(g); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	f.groups = append(f.groups, g)
	return nil
}

func (f *File) write(line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := f.file.Write(append(b, '\n')); err != nil {
		return err
	}
	return f.file.Sync()
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
