package replay

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Change is one field that differs between two states. A missing value is null.
type Change struct {
	Field  string         `json:"field"`
	Before jsontext.Value `json:"before"`
	After  jsontext.Value `json:"after"`
}

// Diff lists the fields that differ between two states of an aggregate, sorted by name. Nested members have names such
// as "outer.inner". Elements of a list are matched by their identifiers, such as "posts.<postId>.content". A list with
// an element without an identifier is one field, an empty list is none.
func Diff(before, after any) ([]Change, error) {
	oldFields, err := fields(before)
	if err != nil {
		return nil, err
	}
	newFields, err := fields(after)
	if err != nil {
		return nil, err
	}
	changes := []Change{}
	names := maps.Clone(oldFields)
	maps.Copy(names, newFields)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, is := orNull(oldFields[name]), orNull(newFields[name]); string(was) != string(is) {
			changes = append(changes, Change{name, was, is})
		}
	}
	return changes, nil
}

func orNull(value jsontext.Value) jsontext.Value {
	if value == nil {
		return jsontext.Value("null")
	}
	return value
}

// fields returns the fields of a state by their full names.
func fields(state any) (map[string]jsontext.Value, error) {
	encoded, err := json.Marshal(state, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("compare states: %w", err)
	}
	found := map[string]jsontext.Value{}
	if err := collect(found, "", encoded); err != nil {
		return nil, fmt.Errorf("compare states: %w", err)
	}
	return found, nil
}

// collect adds the fields of the value to found. name is the full name of the value, "" for the whole state.
func collect(found map[string]jsontext.Value, name string, value jsontext.Value) error {
	switch value.Kind() {
	case '{':
		var members map[string]jsontext.Value
		if err := json.Unmarshal(value, &members); err != nil {
			return err
		}
		for member, inner := range members {
			if name != "" {
				member = name + "." + member
			}
			if err := collect(found, member, inner); err != nil {
				return err
			}
		}
		return nil
	case '[':
		elements, err := elementsByID(value)
		if err != nil || elements == nil {
			found[name] = value
			return err
		}
		for id, inner := range elements {
			if err := collect(found, name+"."+id, inner); err != nil {
				return err
			}
		}
		return nil
	default:
		found[name] = value
		return nil
	}
}

// elementsByID returns the elements of a list by their postId or keyId; nil if an element has none.
func elementsByID(list jsontext.Value) (map[string]jsontext.Value, error) {
	var elements []jsontext.Value
	if err := json.Unmarshal(list, &elements); err != nil {
		return nil, err
	}
	byID := make(map[string]jsontext.Value, len(elements))
	for _, element := range elements {
		if element.Kind() != '{' {
			return nil, nil
		}
		var ids struct {
			PostID string `json:"postId"`
			KeyID  string `json:"keyId"`
		}
		if err := json.Unmarshal(element, &ids); err != nil {
			return nil, err
		}
		id := ids.PostID + ids.KeyID // an element has one of them
		if id == "" {
			return nil, nil
		}
		byID[id] = element
	}
	return byID, nil
}
