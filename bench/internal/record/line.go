package record

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pgpilot/pgpilot/bench/internal/matrix"
)

// format is the version of the file's layout.
const format = 1

// Header is the first line.
type Header struct {
	Format  int       `json:"format"`
	Started time.Time `json:"started"`
	Machine Machine   `json:"machine"`
	Build   Build     `json:"build"`
	// Programs are the versions of what is compared.
	Programs map[string]string `json:"programs"`
	Plan     matrix.Plan       `json:"plan"`
}

// Group is any other line.
type Group struct {
	Round int       `json:"round"`
	Case  string    `json:"case"`
	At    time.Time `json:"at"`
	// Load is the load average of the last minute when the group began.
	Load  float64 `json:"load"`
	Cells []Cell  `json:"cells"`
}

// Cell is one target's part of a group. Times are in seconds, sizes in bytes.
type Cell struct {
	Target string `json:"target"`
	// Skipped is why the target was not measured, Failed why it could not be.
	Skipped string `json:"skipped,omitempty"`
	Failed  string `json:"failed,omitempty"`

	Elapsed      float64 `json:"elapsed,omitempty"`
	Transactions int64   `json:"transactions,omitempty"`
	Statements   int64   `json:"statements,omitempty"`
	Connects     int64   `json:"connects,omitempty"`
	Errors       int64   `json:"errors,omitempty"`
	Stale        int64   `json:"stale,omitempty"`
	Unserved     int64   `json:"unserved,omitempty"`
	Lost         int64   `json:"lost,omitempty"`
	FirstError   string  `json:"first_error,omitempty"`
	// Latency is an HDR histogram of nanoseconds, in the compressed form of its
	// libraries.
	Latency []byte `json:"latency,omitempty"`

	// Processor time of the proxy, of all processes of the target, of all servers, of the
	// generator, and of the whole machine.
	ProxyCPU     float64 `json:"proxy_cpu,omitempty"`
	AllCPU       float64 `json:"all_cpu,omitempty"`
	ServerCPU    float64 `json:"server_cpu,omitempty"`
	GeneratorCPU float64 `json:"generator_cpu,omitempty"`
	MachineCPU   float64 `json:"machine_cpu,omitempty"`

	// Resident memory of all processes of the target before the clients came, when what
	// is measured began, and when it ended.
	ResidentBefore int64 `json:"resident_before,omitempty"`
	ResidentWarm   int64 `json:"resident_warm,omitempty"`
	Resident       int64 `json:"resident,omitempty"`
	// ServerConnections are those of all targets that run, at the end.
	ServerConnections int `json:"server_connections,omitempty"`
	// Reads and Fallbacks are the target's own counters, as differences.
	Reads     float64 `json:"reads,omitempty"`
	Fallbacks float64 `json:"fallbacks,omitempty"`
}

// Measured says that the cell has figures.
func (c Cell) Measured() bool { return c.Skipped == "" && c.Failed == "" }

// TPS is the transactions per second.
func (c Cell) TPS() float64 { return float64(c.Transactions) / c.Elapsed }

// PerStatement is a processor time per statement, in seconds.
func (c Cell) PerStatement(cpu float64) float64 { return cpu / float64(c.Statements) }

// Foreign is the share of the machine's used processor time that was none of the
// target's, the servers' or the generator's. It is an estimate: the kernel counts in
// hundredths of a second.
func (c Cell) Foreign() float64 {
	if c.MachineCPU <= 0 {
		return 0
	}
	return max(0, 1-(c.AllCPU+c.ServerCPU+c.GeneratorCPU)/c.MachineCPU)
}

// Histogram decodes the latencies.
func (c Cell) Histogram() (*hdrhistogram.Histogram, error) {
	h, err := hdrhistogram.Decode(c.Latency)
	if err != nil {
		return nil, fmt.Errorf("decode the latencies of %s: %w", c.Target, err)
	}
	return h, nil
}

// EncodeLatency is the reverse of Histogram.
func EncodeLatency(h *hdrhistogram.Histogram) ([]byte, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode latencies: %w", err)
	}
	return b, nil
}
