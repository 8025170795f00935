package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/procfs"
)

// importCommand is `bench import`.
type importCommand struct {
	testbedFlags
	Lines       int           `default:"200000" help:"Lines to import: half of them alone, half beside live comments."`
	Connections int           `default:"256" help:"Keep-alive connections for the peak of the live interface."`
	Share       float64       `default:"0.1" help:"Live comments beside the import, as a share of the peak."`
	Rounds      int           `default:"5" help:"Rounds of the live interface at its peak, and of the share alone."`
	Duration    time.Duration `default:"2s" help:"Length of a round."`
}

// liveConnections is the number of connections for the live comments beside an import.
const liveConnections = 64

// Run measures the live interface, an import, and both at a time.
func (c *importCommand) Run(ctx context.Context) error {
	return c.withService(ctx, false, nil, func(s *contestant) error {
		peaks, err := alternate(ctx, []*contestant{s}, c.Connections, c.Rounds, c.Duration)
		if err != nil {
			return err
		}
		peak := medianOf(peaks[0], func(f figures) float64 { return f.perSecond })
		fmt.Printf("live, %d connections: %.0f comments/s\n%s", c.Connections, peak, failures(s.name, peaks[0]...))
		var alone []figures
		for range c.Rounds {
			f, err := s.paced(ctx, peak*c.Share, c.Duration)
			if err != nil {
				return err
			}
			alone = append(alone, f)
		}
		fmt.Print("live, the share alone: ", summary(alone))

		first, err := s.newBulkImport(c.Lines / 2)
		if err != nil {
			return err
		}
		if err := first.run(ctx); err != nil {
			return err
		}
		fmt.Printf("import alone: %s, %.2f of the live interface\n", first, first.perSecond/peak)
		if err := c.importBeside(ctx, s, peak); err != nil {
			return err
		}
		if err := printMemory(s.process.PID()); err != nil {
			return err
		}
		return s.checkStored(ctx)
	})
}

// importBeside measures an import and live comments at a time.
func (c *importCommand) importBeside(ctx context.Context, s *contestant, peak float64) error {
	bulk, err := s.newBulkImport(c.Lines / 2)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- bulk.run(ctx) }()
	var beside []figures
	s.projecting = false // the projections need not catch up between the rounds
	for running := true; running; {
		f, err := s.paced(ctx, peak*c.Share, c.Duration)
		if err != nil {
			return err
		}
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			running = false
		default:
			beside = append(beside, f) // the import ran during the whole round
		}
	}
	s.projecting = true
	fmt.Printf("import beside live comments: %s, %.2f of the live interface\n", bulk, bulk.perSecond/peak)
	fmt.Print("live comments beside it: ", summary(beside))
	behind, err := s.awaitProjections(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("Projections caught up after %v.\n", behind.Round(time.Millisecond))
	return nil
}

// printMemory prints the maximum memory of a process.
func printMemory(pid int) error {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return fmt.Errorf("read memory: %w", err)
	}
	status, err := process.NewStatus()
	if err != nil {
		return fmt.Errorf("read memory: %w", err)
	}
	fmt.Printf("The service used up to %d MB of memory.\n", status.VmHWM>>20)
	return nil
}

func medianOf(rounds []figures, value func(figures) float64) float64 {
	return median(valuesOf(rounds, value))
}

// summary returns the medians over rounds.
func summary(rounds []figures) string {
	if len(rounds) == 0 {
		return "no whole round\n"
	}
	return fmt.Sprintf("%.0f comments/s, p50 %.2f ms, p99 %.2f ms (%d rounds)\n%s",
		medianOf(rounds, func(f figures) float64 { return f.perSecond }),
		medianOf(rounds, func(f figures) float64 { return millis(f.p50) }),
		medianOf(rounds, func(f figures) float64 { return millis(f.p99) }), len(rounds), failures("live", rounds...))
}

// bulkImport is an import with its results.
type bulkImport struct {
	*contestant
	key       string // idempotency key
	lines     int
	parts     [][]byte // compressed
	upload    time.Duration
	perSecond float64 // from the first part to the last outcome
}

// newBulkImport prepares an import of n lines.
func (c *contestant) newBulkImport(n int) (*bulkImport, error) {
	c.rounds++
	c.accepted += n
	b := &bulkImport{contestant: c, key: "import-" + strconv.Itoa(int(c.rounds)), lines: n}
	return b, b.pack()
}

// String describes an import that has run.
func (b *bulkImport) String() string {
	return fmt.Sprintf("%d lines, uploaded in %v, %.0f lines/s to the last outcome", b.lines,
		b.upload.Round(time.Millisecond), b.perSecond)
}

// run uploads the parts and waits until every line has been stored.
func (b *bulkImport) run(ctx context.Context) error {
	var progress struct {
		ImportID, State                string
		Created, Failed, ParentMissing int
	}
	began := time.Now()
	if err := b.request(ctx, http.MethodPost, "", nil, &progress); err != nil {
		return err
	}
	path := "/" + progress.ImportID
	for k, part := range b.parts {
		if err := b.request(ctx, http.MethodPut, path+"/lines?offset="+strconv.Itoa(k*partLines), part, nil); err != nil {
			return err
		}
	}
	b.upload = time.Since(began)
	err := b.request(ctx, http.MethodPost, path+"/complete", nil, &progress)
	for err == nil && progress.State == "processing" {
		time.Sleep(100 * time.Millisecond)
		err = b.request(ctx, http.MethodGet, path, nil, &progress)
	}
	b.perSecond = float64(b.lines) / time.Since(began).Seconds()
	if err == nil && (progress.State != "completed" || progress.Created != b.lines || progress.ParentMissing != 0) {
		err = fmt.Errorf("%w: %+v", errAnswer, progress)
	}
	return err
}

// request sends a request about imports and decodes the answer into a value, unless that is nil.
func (b *bulkImport) request(ctx context.Context, method, path string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, b.url+"/api/integrations/imports"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+b.apiKey)
	if body != nil {
		r.Header.Set("Content-Type", "application/x-ndjson")
		r.Header.Set("Content-Encoding", "zstd")
	}
	if path == "" {
		r.Header.Set("Idempotency-Key", b.key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read from
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%w: %s %d %s", errAnswer, method, response.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("decode %s: %w", answer, err)
	}
	return nil
}

// partLines is the number of lines of a part.
const partLines = 10_000

// pack makes the parts. As many comments are replies as in the live load. A third of the replies come before their
// parents, at a random place.
func (b *bulkImport) pack() error {
	type line struct{ place, index, parent int }         // sorted by place; parent is -1 for a top-level comment
	random := rand.New(rand.NewPCG(uint64(b.rounds), 1)) //nolint:gosec // not a secret
	list := make([]line, b.lines)
	for i := range list {
		list[i] = line{place: i, index: i, parent: -1}
		if earlier := i / b.Titles; earlier > 0 && random.Float64() < b.Replies {
			parent := i%b.Titles + b.Titles*random.IntN(earlier)
			list[i].parent = parent
			if random.IntN(3) == 0 {
				list[i].place = random.IntN(parent + 1)
			}
		}
	}
	slices.SortStableFunc(list, func(x, y line) int { return x.place - y.place })
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return fmt.Errorf("pack lines: %w", err)
	}
	composer, now := newComposer(b.withTarget(loadConfig{}), 0), time.Now()
	id := func(index int) commentID { return newCommentID(b.rounds, 0, index) }
	for chunk := range slices.Chunk(list, partLines) {
		var text []byte
		for _, l := range chunk {
			text = id(l.index).appendKey(append(text, `{"operation":"posts","idempotencyKey":"`...))
			composer.writeBody(titleOf(l.index%b.Titles), l.parent >= 0, id(max(l.parent, 0)), now)
			text = append(append(append(text, `","body":`...), composer.body...), '}', '\n')
		}
		b.parts = append(b.parts, packer.EncodeAll(text, nil))
	}
	return nil
}
