package audit_test

// An independent verifier of bundles, written from docs/auditors.md: it uses the standard library and
// golang.org/x/mod/sumdb only, and no other code of this project. Auditors may take it as an example.

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Numbers in a full file.
const (
	eventsPerFile    = 4096
	entriesPerBundle = 256
)

var errWrong = errors.New("does not verify")

// line is a line of a file of events.
type line struct {
	LogIndex                     *int64
	ID, Source, Type, StreamType string
	StreamID                     string
	StreamVersion                uint32
	RecordedAt                   time.Time
	Data, Metadata               string
	Personal, Salt               *string
}

// verifyBundle checks a bundle that begins with the first event, and returns how many events it has.
func verifyBundle(dir, key string) (int64, error) {
	tree, err := openCheckpoint(dir, key)
	if err != nil {
		return 0, err
	}
	h := &verified{versions: map[string]uint32{}, seen: map[[2]string]bool{}}
	for first := int64(0); first < tree.N; first += eventsPerFile {
		count := min(eventsPerFile, tree.N-first)
		list, err := readEvents(dir, first, count)
		if err != nil {
			return 0, err
		}
		entries, err := readEntries(dir, first, count)
		if err != nil {
			return 0, err
		}
		for i := range list {
			if err := h.add(first+int64(i), &list[i], entries[i]); err != nil {
				return 0, err
			}
		}
	}
	root, err := tlog.TreeHash(tree.N, h)
	if err != nil {
		return 0, fmt.Errorf("compute root: %w", err)
	}
	if root != tree.Hash {
		return 0, fmt.Errorf("%w: the root is %s, but the signed one is %s", errWrong, root, tree.Hash)
	}
	return tree.N, nil
}

// verified is the events so far.
type verified struct {
	hashes   []tlog.Hash        // of the tree, in the order in which tlog stores them
	versions map[string]uint32  // newest version of each stream
	seen     map[[2]string]bool // pairs of source and id
}

// ReadHashes implements tlog.HashReader.
func (h *verified) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		list[i] = h.hashes[index]
	}
	return list, nil
}

// add checks an event and its stored entry, and adds the hashes of the tree up to it.
func (h *verified) add(index int64, e *line, stored []byte) error {
	entry, err := e.entry(stored)
	if err != nil {
		return fmt.Errorf("event %d: %w", index, err)
	}
	if e.LogIndex == nil || *e.LogIndex != index || !bytes.Equal(entry, stored) {
		return fmt.Errorf("%w: event %d differs from its entry, or has another log index", errWrong, index)
	}
	name := [2]string{e.Source, e.ID}
	if h.seen[name] || e.StreamVersion != h.versions[e.StreamID]+1 {
		return fmt.Errorf("%w: event %d is a duplicate, or the version before it is missing", errWrong, index)
	}
	h.seen[name], h.versions[e.StreamID] = true, e.StreamVersion
	hashes, err := tlog.StoredHashes(index, entry, h)
	if err != nil {
		return fmt.Errorf("compute hashes: %w", err)
	}
	h.hashes = append(h.hashes, hashes...)
	return nil
}

// openCheckpoint checks the signature of the checkpoint and returns its tree.
func openCheckpoint(dir, key string) (tlog.Tree, error) {
	signed, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		return tlog.Tree{}, fmt.Errorf("read checkpoint: %w", err)
	}
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return tlog.Tree{}, fmt.Errorf("read key: %w", err)
	}
	opened, err := note.Open(signed, note.VerifierList(verifier))
	if err != nil {
		return tlog.Tree{}, fmt.Errorf("%w: %w", errWrong, err)
	}
	var tree tlog.Tree
	var root string
	if _, err := fmt.Sscanf(opened.Text, verifier.Name()+"\n%d\n%s\n", &tree.N, &root); err != nil {
		return tlog.Tree{}, fmt.Errorf("read checkpoint: %w", err)
	}
	if tree.Hash, err = tlog.ParseHash(root); err != nil {
		return tlog.Tree{}, fmt.Errorf("read root: %w", err)
	}
	return tree, nil
}

// numbered returns the path of tile or file number n, which is below 1000 here. A partial one, whose width is less than
// full, has a suffix.
func numbered(n, width, full int64) string {
	text := fmt.Sprintf("%03d", n)
	if width < full {
		text += fmt.Sprintf(".p/%d", width)
	}
	return text
}

// readEvents reads the file of events that begins at log index first and has count events.
func readEvents(dir string, first, count int64) ([]line, error) {
	file := numbered(first/eventsPerFile, count, eventsPerFile) + ".ndjson"
	text, err := os.ReadFile(filepath.Join(dir, "events", file))
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	lines := strings.Split(string(text), "\n")
	if int64(len(lines)) != count+1 || lines[count] != "" {
		return nil, fmt.Errorf("%w: a file of %d lines from event %d on", errWrong, len(lines), first)
	}
	list := make([]line, count)
	for i := range list {
		if err := json.Unmarshal([]byte(lines[i]), &list[i]); err != nil {
			return nil, fmt.Errorf("%w: event %d: %w", errWrong, first+int64(i), err)
		}
	}
	return list, nil
}

// readEntries reads the entry bundles with the entries from first to first+count-1.
func readEntries(dir string, first, count int64) ([][]byte, error) {
	var list [][]byte
	for start := first; start < first+count; start += entriesPerBundle {
		width := min(entriesPerBundle, first+count-start)
		file := numbered(start/entriesPerBundle, width, entriesPerBundle)
		data, err := os.ReadFile(filepath.Join(dir, "tile", "entries", file))
		if err != nil {
			return nil, fmt.Errorf("read entries: %w", err)
		}
		for range width {
			if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
				return nil, fmt.Errorf("%w: the bundle of entry %d is cut off", errWrong, start)
			}
			end := 2 + int(binary.BigEndian.Uint16(data))
			list, data = append(list, data[2:end]), data[end:]
		}
	}
	return list, nil
}

// entry encodes the event. It takes the digest of erased data from the stored entry.
func (e *line) entry(stored []byte) ([]byte, error) {
	entry := []byte("novelgate/event/v1\n")
	for _, text := range []string{e.ID, e.Source, e.Type, e.StreamType} {
		entry = binary.BigEndian.AppendUint16(entry, uint16(len(text)))
		entry = append(entry, text...)
	}
	stream, err := parseUUID(e.StreamID)
	if err != nil {
		return nil, err
	}
	entry = append(entry, stream...)
	entry = binary.BigEndian.AppendUint32(entry, e.StreamVersion)
	entry = binary.BigEndian.AppendUint64(entry, uint64(e.RecordedAt.UnixMicro()))
	entry = appendDigest(entry, e.Data)
	switch {
	case e.Personal == nil && e.Salt != nil && len(stored) > len(entry) && stored[len(entry)] != 0:
		return nil, fmt.Errorf("%w: it lacks its personal data but has its salt, and an erasure removes both", errWrong)
	case e.Personal == nil && len(stored) > len(entry) && stored[len(entry)] != 0: // erased
		entry = append(entry, stored[len(entry):min(len(entry)+33, len(stored))]...)
	case e.Personal == nil:
		entry = append(entry, 0)
	case e.Salt == nil:
		entry = appendDigest(append(entry, 2), *e.Personal)
	default:
		salt, err := parseUUID(*e.Salt)
		if err != nil {
			return nil, err
		}
		entry = appendDigest(append(entry, 1), string(salt)+*e.Personal)
	}
	return appendDigest(entry, e.Metadata), nil
}

func appendDigest(entry []byte, text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return append(entry, sum[:]...)
}

func parseUUID(text string) ([]byte, error) {
	var id []byte
	if _, err := fmt.Sscanf(strings.ReplaceAll(text, "-", ""), "%32x", &id); err != nil || len(id) != 16 {
		return nil, fmt.Errorf("%w: %q is not a UUID", errWrong, text)
	}
	return id, nil
}
