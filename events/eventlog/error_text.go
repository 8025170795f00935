package eventlog

import "strings"

// ErrorText makes an error fit into a column of text.
func ErrorText(err error) string {
	const limit = 4000
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
