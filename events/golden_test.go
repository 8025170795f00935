package events_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet; one that exists is never changed")

// samples returns one event of each type: those in the golden files.
func samples(t *testing.T) []events.Event {
	t.Helper()
	var found []events.Event
	for _, eventType := range events.Types() {
		event, err := events.Decode(readGolden(t, eventType))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, event)
	}
	return found
}

func id(n byte) uuid.UUID { return uuid.UUID{0: n, 6: 0x70, 8: 0x80, 15: n} }

// TestStoredBytes: the program reads every member of the golden files, and writes the same bytes as ever. A golden file
// has the data on its first line, and the personal part, if any, on the second.
func TestStoredBytes(t *testing.T) {
	t.Parallel()
	for _, eventType := range events.Types() {
		t.Run(eventType, func(t *testing.T) {
			t.Parallel()
			golden := readGolden(t, eventType)
			event, err := events.Decode(golden)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range unfilled(reflect.ValueOf(event), eventType) {
				t.Errorf("the golden file has no value for %s", field)
			}
			stored, err := events.Encode(event)
			if err != nil {
				t.Fatal(err)
			}
			if stored.Type != eventType {
				t.Errorf("stored as %q", stored.Type)
			}
			if diff := cmp.Diff(string(golden.Data), string(stored.Data)); diff != "" {
				t.Errorf("data (-golden +written):\n%s", diff)
			}
			if diff := cmp.Diff(string(golden.Personal), string(stored.Personal)); diff != "" {
				t.Errorf("personal (-golden +written):\n%s", diff)
			}
		})
	}
}

// unfilled returns the fields of an event that have no value. A pointer may lead to an empty one: an update that clears
// a field.
func unfilled(v reflect.Value, name string) (found []string) {
	switch {
	case v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct:
		return unfilled(v.Elem(), name)
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			found = append(found, unfilled(v.Field(i), name+"."+v.Type().Field(i).Name)...)
		}
	case v.IsZero():
		return []string{name}
	}
	return found
}

// fill gives every field of a new event a value.
func fill(v reflect.Value, name string) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 3, 4, 12, 30, 15, 123456000, time.UTC)))
		return
	case uuid.UUID:
		v.Set(reflect.ValueOf(id(1)))
		return
	case jsontext.Value:
		v.SetBytes([]byte("12.50"))
		return
	}
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case v.Kind() == reflect.String:
		v.SetString(name + " “Ω” <&>")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7)
	case v.CanUint():
		v.SetUint(7)
	default:
		panic("no value for " + name + ": add its kind to fill")
	}
}

// TestMain runs the tests. With -update it writes missing golden files and fails with their number, because go test
// prints nothing for a package that passes.
func TestMain(m *testing.M) {
	flag.Parse()
	if *update {
		written, err := writeGolden()
		if err != nil {
			fmt.Println("write golden files:", err)
			os.Exit(1)
		}
		if written > 0 {
			fmt.Printf("%d golden files written: compare them with the events, and run the tests again\n", written)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func writeGolden() (written int, err error) {
	for _, eventType := range events.Types() {
		path := goldenPath(eventType)
		if _, err := os.Stat(path); err == nil {
			continue // golden files are never changed
		}
		empty, err := events.Decode(events.Stored{Type: eventType, Data: []byte("{}")})
		if err != nil {
			return written, err
		}
		event := reflect.New(reflect.TypeOf(empty)).Elem()
		fill(event, eventType)
		stored, err := events.Encode(event.Interface().(events.Event))
		if err != nil {
			return written, err
		}
		content := append(stored.Data, '\n')
		if stored.Personal != nil {
			content = append(append(content, stored.Personal...), '\n')
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return written, err
		}
		written++
	}
	return written, nil
}

func readGolden(t *testing.T, eventType string) events.Stored {
	t.Helper()
	content, err := os.ReadFile(goldenPath(eventType))
	if err != nil {
		t.Fatalf("no golden file; after adding an event run `go test ./events -update`: %v", err)
	}
	golden := events.Stored{Type: eventType, Integration: uuid.NullUUID{UUID: id(1), Valid: true}} // of the source
	data, personal, _ := strings.Cut(strings.TrimSuffix(string(content), "\n"), "\n")
	golden.Data = []byte(data)
	if personal != "" {
		golden.Personal = []byte(personal)
	}
	return golden
}

func goldenPath(eventType string) string { return filepath.Join("testdata", eventType+".golden") }

// TestEveryGoldenFileIsReadable: also those of types that have been upcast since.
func TestEveryGoldenFileIsReadable(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(goldenPath("*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < len(events.Types()) {
		t.Errorf("%d golden files for %d events", len(paths), len(events.Types()))
	}
	for _, path := range paths {
		golden := readGolden(t, strings.TrimSuffix(filepath.Base(path), ".golden"))
		if _, err := events.Decode(golden); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
