package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
)

// Live is a Source: a running service with its events. They come in one stream, which stays open from one call of
// Events to the next. Only one goroutine may use it at a time.
type Live struct {
	*Service
	Key string // API key of an auditor

	stream *stream
}

// stream is an open answer of /api/events with one stored event per line.
type stream struct {
	next  int64 // log index of its next event
	lines *bufio.Scanner
	abort context.CancelFunc
	body  io.Closer
}

const (
	maxLine   = 4 << 20          // bytes; an event whose fields have their maximum length has far fewer
	liveBytes = 8 << 20          // bytes of events that one call returns, about
	lineWait  = 45 * time.Second // maximum wait for a line; the service sends an empty one after 15 s without events
)

// Events implements Source. It returns fewer events than count if they are large or the stream ends. It waits for
// events that the service has not sent yet; the caller knows that the log has count events from first on.
func (l *Live) Events(ctx context.Context, first int64, count int, _ int64) (list []ledger.Event, err error) {
	if l.stream != nil && l.stream.next != first {
		l.Close()
	}
	if l.stream == nil {
		if l.stream, err = l.open(ctx, first); err != nil {
			return nil, err
		}
	}
	stalled := time.AfterFunc(lineWait, l.stream.abort)
	defer stalled.Stop()
	for size := 0; len(list) < count && size < liveBytes; stalled.Reset(lineWait) {
		if !l.stream.lines.Scan() {
			err = errors.Join(l.stream.lines.Err(), ctx.Err())
			l.Close()
			if len(list) > 0 {
				return list, nil // the next call opens another stream
			}
			return nil, fmt.Errorf("the stream of events ended before log index %d: %w", first, errors.Join(io.EOF, err))
		}
		if text := l.stream.lines.Bytes(); len(text) > 0 {
			list, size = append(list, parseLine(bytes.Clone(text))), size+len(text)
		}
	}
	l.stream.next += int64(len(list))
	return list, nil
}

// Close ends the stream. A later call of Events opens another one.
func (l *Live) Close() {
	if l.stream == nil {
		return
	}
	l.stream.abort()
	_ = l.stream.body.Close() // it was only read from
	l.stream = nil
}

func (l *Live) open(ctx context.Context, first int64) (*stream, error) {
	address := strings.TrimSuffix(l.URL, "/ledger") + "/api/events?form=stored&follow=true"
	if first > 0 {
		address += "&after=" + strconv.FormatInt(first-1, 10)
	}
	ctx, cancel := context.WithCancel(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("read events: %w", err)
	}
	request.Header.Set("Accept", "application/x-ndjson")
	request.Header.Set("Authorization", "Bearer "+l.Key)
	timeout := time.AfterFunc(getTimeout, cancel)
	response, err := l.Client.Do(request)
	timeout.Stop()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("read events: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		defer response.Body.Close() //nolint:errcheck // it was only read from
		return nil, statusError(response, first)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	return &stream{next: first, lines: lines, abort: cancel, body: response.Body}, nil
}

// wholeLines splits into lines like bufio.ScanLines, but drops a last line without a line feed: the connection was lost
// within it.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if atEOF && bytes.IndexByte(data, '\n') < 0 {
		return len(data), nil, nil
	}
	return bufio.ScanLines(data, atEOF)
}

// statusError returns the error of an answer without events: ledger.ErrNotFound if the service does not have the event
// before the first one.
func statusError(response *http.Response, first int64) error {
	const maxBody = 64 << 10
	var problem struct{ Detail, Field string }
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err == nil {
		_ = json.Unmarshal(body, &problem, json.MatchCaseInsensitiveNames(true)) // a proxy answers in another form
	}
	if response.StatusCode == http.StatusBadRequest && problem.Field == "after" {
		return fmt.Errorf("event of log index %d: %w", first-1, ledger.ErrNotFound)
	}
	return fmt.Errorf("read events: %w: %s %s", errStatus, response.Status, problem.Detail)
}

// AddDigests adds to erased events the digests of their personal parts, from the entries of the source. The events are
// consecutive, from log index first on, below size.
func AddDigests(ctx context.Context, source Source, list []ledger.Event, first, size int64) error {
	bundle, entries := int64(-1), [][]byte(nil)
	for i := range list {
		row, index := &list[i].Row, first+int64(i)
		if row.Personal != nil || row.Salt.Valid || row.PersonalDigest != nil || list[i].Broken != nil {
			continue
		}
		if n := index / ledger.TileWidth; n != bundle {
			tile := tileAt(entryBundles, n*ledger.TileWidth, size)
			data, err := source.Tile(ctx, tile)
			if errors.Is(err, ErrEventsOnly) {
				return nil // the events of such a source have their digests
			}
			if err != nil {
				return err
			}
			bundle = n
			entries, _ = ledger.SplitBundle(data, tile.W) // an event without its entry gets another leaf, which shows the fault
		}
		if offset := int(index % ledger.TileWidth); offset < len(entries) {
			if e, err := ledger.ParseEntry(entries[offset]); err == nil {
				addDigest(row, &e)
			}
		}
	}
	return nil
}

// ErrTiles is returned for hash tiles that do not have the root of their tree.
var ErrTiles = errors.New("the hash tiles do not belong to the checkpoint")

// Hashes returns a reader of the hashes of a tree, from the tiles of a source. It verifies every hash against the root,
// and fails with ErrTiles for tiles that do not have this root.
func Hashes(ctx context.Context, source Source, root tlog.Tree) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var readErr error
		readTiles := func(tiles []tlog.Tile) (data [][]byte, err error) {
			data = make([][]byte, len(tiles))
			for i, tile := range tiles {
				if data[i], readErr = source.Tile(ctx, tile); readErr != nil {
					return nil, readErr
				}
			}
			return data, nil
		}
		hashes, err := tlog.TileHashReader(root, ledger.TileReader(readTiles)).ReadHashes(indexes)
		if err != nil && readErr == nil {
			err = fmt.Errorf("%w: %w", ErrTiles, err)
		}
		return hashes, err
	})
}
