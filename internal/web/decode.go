package web

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode decodes a JSON object into a struct whose fields have names of members, at most eight. It is as strict as
// Object, and refuses unknown members, and null for members that are not nullable. The error is a *problem.Error; of
// several members of a wrong type it names the first in the body.
func Decode(body []byte, into any, nullable ...string) error {
	o := Object{Strict: true}
	fields := reflect.TypeOf(into).Elem()
	names := make([]string, fields.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(fields.Field(i).Tag.Get("json"), ",")
	}
	if err := o.Parse(body, names); err != nil {
		return err
	}
	for i, name := range names {
		switch {
		case o.miscased[i] != "":
			o.Fail(o.miscased[i], "unknown member: the name is %q, and case matters", name)
		case o.null[i] && !slices.Contains(nullable, name):
			o.Fail(name, "must not be null")
		}
	}
	if len(o.errs) == 0 {
		err := json.Unmarshal(body, into, json.WithUnmarshalers(json.UnmarshalFromFunc(decodeText)))
		wrong, ok := errors.AsType[*json.SemanticError](err)
		if !ok {
			return err
		}
		field := ""
		for token := range wrong.JSONPointer.Tokens() {
			if field == "" {
				field = token
			} else {
				field += "[" + token + "]"
			}
		}
		o.Fail(field, "%s", mistake(wrong))
	}
	return o.Err()
}

// decodeText refuses strings that Object.Text refuses, and null as an element of an array.
func decodeText(decoder *jsontext.Decoder, text *string) error {
	switch decoder.PeekKind() {
	case 'n':
		return errors.New("must be a string, got null")
	case '"':
	default:
		return errors.ErrUnsupported // the usual error
	}
	token, err := decoder.ReadToken()
	if *text = token.String(); err == nil && strings.ContainsRune(*text, 0) {
		return errors.New("must not contain the character NUL (U+0000)")
	}
	return err
}

// mistake describes why a value does not fit its field.
func mistake(err *json.SemanticError) string {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "is out of range"
	case err.JSONKind == '0' && errors.Is(err, strconv.ErrSyntax):
		return "must be a whole number, without fraction and exponent"
	case err.Err != nil && err.JSONKind == 0:
		return err.Err.Error()
	}
	want := "an object"
	switch err.GoType.Kind() { //nolint:exhaustive // no others occur in bodies
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "a boolean"
	case reflect.Slice:
		want = "an array"
	case reflect.Int, reflect.Int64:
		want = "a whole number"
	}
	return "must be " + want + ", got " + describe(err.JSONKind)
}
