package auth_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"novelgate/internal/auth"
)

func TestSecretNeverLeaks(t *testing.T) {
	t.Parallel()
	// No digits and hexadecimal digits follow the prefix: times and addresses in the output could contain four of them.
	key := knownKey("ngp_0123GHIJKLMNOPQRSTUVWXYZghijkl")
	secret, err := auth.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	type public struct{ Key auth.Secret }
	type private struct{ key auth.Secret }

	var printed []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%50s", "%.2s", "%!"} {
		for _, value := range []any{
			secret, &secret,
			public{secret},
			&public{secret},
			private{secret},
			&private{secret},
			[]auth.Secret{secret},
			map[string]auth.Secret{"k": secret},
			[]any{private{secret}},
		} {
			printed = append(printed, fmt.Sprintf(verb, value))
		}
	}
	printed = append(printed, fmt.Sprint(secret), fmt.Sprintln(secret), secret.String(), secret.GoString())
	printed = append(printed, fmt.Errorf("check key %v: %w", secret, errors.ErrUnsupported).Error())
	for name, marshal := range map[string]func(any) ([]byte, error){
		"json": json.Marshal, "xml": xml.Marshal, "json v2": func(v any) ([]byte, error) { return jsonv2.Marshal(v) },
	} {
		for _, value := range []any{secret, public{secret}} {
			out, err := marshal(value)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			printed = append(printed, string(out))
		}
	}
	var logs bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&logs, nil), slog.NewJSONHandler(&logs, nil)} {
		slog.New(handler).InfoContext(t.Context(), "keys", slog.Any("key", secret), slog.Any("in", public{secret}),
			slog.Any("hidden", private{secret}))
	}
	printed = append(printed, logs.String())

	for _, out := range printed {
		// Any four characters in a row beyond the prefix, plain or as hex, are a leak.
		for i := 8; i+4 <= len(key); i++ {
			part := key[i : i+4]
			if strings.Contains(out, part) || strings.Contains(strings.ToLower(out), fmt.Sprintf("%x", part)) {
				t.Errorf("%q shows %q of the key", out, part)
				break
			}
		}
	}
	if got, want := fmt.Sprintf("%v|%+v|%#v|%s|%q", secret, secret, secret, secret, secret), strings.Repeat("ngp_0123…|",
		5); got+"|" != want {
		t.Errorf("printed as %s, want %s", got, want)
	}
	if out, _ := json.Marshal(secret); string(out) != `"ngp_0123…"` {
		t.Errorf("marshalled as %s", out)
	}
}

func TestSecretParts(t *testing.T) {
	t.Parallel()
	key := knownKey(known)
	secret, err := auth.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if got := secret.Prefix(); got != "ngp_0123" {
		t.Errorf("Prefix() = %q", got)
	}
	if got := secret.Hash(); got != sha256.Sum256([]byte(key)) {
		t.Errorf("Hash() = %x", got)
	}
	var zero auth.Secret
	if zero.Reveal() != "" || zero.Kind() != "" || zero.Prefix() != "" || fmt.Sprint(zero) != "(no key)" {
		t.Errorf("zero Secret: %q %q %q %v", zero.Reveal(), zero.Kind(), zero.Prefix(), zero)
	}
}
