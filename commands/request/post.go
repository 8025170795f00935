package request

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"novelgate/internal/title"
	"novelgate/internal/web"
)

// The limits of a post's fields.
const (
	maxUUID     = 255
	maxUsername = 50
	maxContent  = 20_000
	maxAhead    = 5 * time.Minute
)

// Post is the validated command to import a comment.
type Post struct {
	AuthorUUID  string // exactly as sent
	Username    string // trimmed
	Title       string // of the novel, cleaned by title.Clean
	FoldedTitle string // by title.Fold
	Content     string // exactly as sent
	Chapter     *Decimal
	// WrittenAt is in UTC, truncated to whole microseconds like PostgreSQL timestamps.
	WrittenAt time.Time
	// TimestampGiven is false when WrittenAt is the time of receipt.
	TimestampGiven bool
	ParentKey      *string  // as ParseKey returns it; exactly as sent if it is no key, and so of no comment
	Unknown        []string // members that are ignored; see web.Object.Unknown
}

// PostMembers are the members of a post, in the order of the documentation.
var PostMembers = []string{"uuid", "username", "novel", "content", "chapterNumber", "timestamp", "parent_uuid"}

// DecodePost decodes and validates the body of a comment that was received at receivedAt. The error is a *problem.Error
// with the code invalid_request.
func DecodePost(body []byte, receivedAt time.Time) (Post, error) {
	var o object
	if err := o.Parse(body, PostMembers); err != nil {
		return Post{}, err
	}
	p := Post{
		AuthorUUID: o.required("uuid", asSent, notBlank(maxUUID)),
		Username:   o.required("username", strings.TrimSpace, visible(maxUsername)),
		Title:      o.title(),
		Content:    o.required("content", asSent, visible(maxContent)),
	}
	o.refuseHTML("content", p.Content)
	p.Chapter = o.chapter("chapterNumber")
	p.WrittenAt, p.TimestampGiven = o.timestamp("timestamp", receivedAt)
	p.ParentKey = o.optional("parent_uuid", keyOrText, anyText)
	if err := o.Err(); err != nil {
		return Post{}, err
	}
	p.FoldedTitle, p.Unknown = title.Fold(p.Title), o.Unknown()
	return p, nil
}

func (o *object) refuseHTML(field, text string) {
	if what, found := findHTML(text); found {
		o.Fail(field, "must be plain text, but contains HTML: %s", what)
	}
}

func anyText(string) string { return "" }

// keyOrText returns the key that a header with this text has. Any other text is no error, but finds no parent.
func keyOrText(sent string) string {
	if key, wrong := web.ParseKey(sent); wrong == "" {
		return key
	}
	return sent
}

func (o *object) chapter(name string) *Decimal {
	number, ok := o.Number(name)
	if !ok {
		return nil
	}
	d, wrong := parseChapter(number)
	o.refuse(name, wrong)
	return &d
}

// timestamp reads when the comment was written. A time up to maxAhead after receivedAt is valid, inclusive.
func (o *object) timestamp(name string, receivedAt time.Time) (at time.Time, given bool) {
	s, ok := o.Text(name, optional)
	if !ok {
		return receivedAt.UTC().Truncate(time.Microsecond), false
	}
	t, wrong := parseTimestamp(s)
	switch {
	case wrong != "":
		o.Fail(name, "%s, got %q", wrong, web.Clip(s))
	case t.After(receivedAt.Add(maxAhead)):
		o.Fail(name, "must be at most five minutes in the future, got %q, received at %s",
			web.Clip(s), receivedAt.UTC().Format(time.RFC3339))
	}
	return t.Truncate(time.Microsecond), true
}

// Decimal is an exact decimal number in canonical text: an integer part without needless leading zeros and, unless the
// value is whole, a point and digits without trailing zeros. Equal values have equal text: 1e2 and 100.0 are "100", -0
// is "0", 1.50 is "1.5". The text is a valid JSON number and a valid PostgreSQL numeric.
type Decimal string

// String returns the canonical text.
func (d Decimal) String() string { return string(d) }

const (
	maxFraction = 20 // digits after the point
	// 1,000,000 is 0.1 × 10^7, so at magnitude 7 only the digit 1 is allowed.
	maxMagnitude = 7
	maxChapter   = "1,000,000"
	// No body has enough digits to offset a larger exponent, so clamping changes no result.
	exponentBound = 1 << 40
)

// parseChapter reads a JSON number from 0 to 1,000,000 with at most 20 digits after the point. The cost is linear in
// the text, whatever the exponent. wrong is the error text, "" for a valid number.
func parseChapter(number string) (d Decimal, wrong string) {
	mantissa, exponent := number, ""
	if e := strings.IndexAny(number, "eE"); e >= 0 {
		mantissa, exponent = number[:e], number[e+1:]
	}
	negative := strings.HasPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")

	// The value is 0.SIGNIFICANT × 10^magnitude, with no zero at either end of SIGNIFICANT.
	digits := whole + fraction
	power, _ := strconv.ParseInt(cmp.Or(exponent, "0"), 10, 64) // JSON has digits only; an overflow gives the limit
	magnitude := int64(len(whole)) + max(-exponentBound, min(power, exponentBound))
	significant := strings.TrimLeft(digits, "0")
	magnitude -= int64(len(digits) - len(significant))
	significant = strings.TrimRight(significant, "0")

	switch n := int64(len(significant)); {
	case n == 0:
		return "0", ""
	case negative, magnitude > maxMagnitude, magnitude == maxMagnitude && significant != "1":
		return "", fmt.Sprintf("must be from 0 to %s, got %s", maxChapter, web.Clip(number))
	case n-magnitude > maxFraction:
		return "", fmt.Sprintf("must have at most %d digits after the decimal point, got %s", maxFraction,
			web.Clip(number))
	case magnitude <= 0:
		return Decimal("0." + strings.Repeat("0", int(-magnitude)) + significant), ""
	case n <= magnitude:
		return Decimal(significant + strings.Repeat("0", int(magnitude-n))), ""
	default:
		return Decimal(significant[:magnitude] + "." + significant[magnitude:]), ""
	}
}
